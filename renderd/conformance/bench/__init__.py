"""`renderd bench`: what servers cost and how fast they answer, measured side by side in one run.

Every figure is taken from outside, by HTTP and from /proc: any server can stand beside any other. CPU is
that of the server's processes, all threads, to the nanosecond; the caller's own work is in no figure but
where it says so.

* `target`: a server; `cpu`: what the processes of one used; `workload`: what is sent; `tables`: how it is
  shown.
* One caller that waits for each answer, CPU seconds a call: `rendering`, `streaming`, `prompt_ids`, `batch`.
* Many connections at once: `generator` is a process of its own that keeps them busy, `load` starts it;
  `concurrency`, `interference` and `scaling` are the measurements made with it.
* `starting`: seconds until a server is ready, and the memory of its processes.
* `main`: the command line.
"""
