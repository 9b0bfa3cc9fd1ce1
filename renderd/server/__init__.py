"""The HTTP service around render and derender: flags, application, middleware, metrics, lifecycle."""
