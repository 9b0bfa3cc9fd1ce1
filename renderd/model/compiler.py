"""Chat templates as Python that is cheap to run.

Jinja compiles a template to Python in which every look-up, operation and call goes through its sandbox.
Nearly all of them are on a few types, for which the sandbox has nothing to say: an item of a JSON object, two
texts put together, a method of a text. Here these are written out, behind a look at the type; whatever is of
another type goes the sandbox's way. What is evaluated, and in which order, stays as it is: so do texts and
errors.

The code counts for `renderd.model.sandbox`: `_step`, `_add`, `_chain`, `_joined` and `_out` are methods of
the `Spent` of a rendering.
"""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, optimizeconst

_OF_LOOP = frozenset(
    {"depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex"}
    | {"revindex0"}
)
"""What a loop says about itself."""
GROWING = frozenset(
    {
        "center",
        "expandtabs",
        "format",
        "format_map",
        "join",
        "ljust",
        "replace",
        "rjust",
        "translate",
        "zfill",
    }
)
"""Methods of texts that may make much of little. The sandbox measures them."""
_OF_TEXT = frozenset(name for name in dir(str) if not name.startswith("_")) - GROWING
_OF_OBJECT = frozenset({"get", "items", "keys", "values"})


class Generator(CodeGenerator):
    """Jinja's compiler for environments with the methods `spent` and `bound`."""

    def write_commons(self) -> None:
        """What the code of a template and of each block begins with."""
        super().write_commons()
        self.writeline("_spent = environment.spent()")
        for name in ("step", "add", "chain", "joined", "out"):
            self.writeline(f"_{name} = _spent.{name}")

    def enter_frame(self, frame: Frame) -> None:
        """The begin of a scope. Each turn of a loop is one, and counts."""
        super().enter_frame(frame)
        if frame.loop_frame:
            self.writeline("_step()")

    @optimizeconst
    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        """`a.b`: Jinja prefers attributes to items. Of attributes, JSON objects have those of a dict."""
        looped = isinstance(node.node, nodes.Name) and node.node.name == "loop" and node.attr in _OF_LOOP
        if hasattr(dict, node.attr) or node.attr.startswith("_"):
            super().visit_Getattr(node, frame)
            return
        quick = f"(_v.{node.attr}" if looped else f"(_v[{node.attr!r}]"
        self.write(f"{quick} if type(_v := ")
        self.visit(node.node, frame)
        self.write(") is LoopContext" if looped else f") is dict and {node.attr!r} in _v")
        self.write(f" else environment.field(_v, {node.attr!r}))")

    @optimizeconst
    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        """`a['b']`: Jinja prefers items."""
        if not isinstance(node.arg, nodes.Const) or not isinstance(node.arg.value, str):
            super().visit_Getitem(node, frame)
            return
        key, slow = repr(node.arg.value), "getitem" if hasattr(dict, node.arg.value) else "item"
        self.write(f"(_v[{key}] if type(_v := ")
        self.visit(node.node, frame)
        self.write(f") is dict and {key} in _v else environment.{slow}(_v, {key}))")

    @optimizeconst
    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        """`a.b(c)`, where b is a method that does no harm, and any other call."""
        function = node.node
        method = function.attr if isinstance(function, nodes.Getattr) else ""
        named = node.kwargs or node.dyn_args or node.dyn_kwargs or forward_caller
        if named or method not in _OF_TEXT | _OF_OBJECT:
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        assert isinstance(function, nodes.Getattr)
        self.write(f"(_v.{method} if type(_v := ")
        self.visit(function.node, frame)
        self.write(f") is {'dict' if method in _OF_OBJECT else 'str'} else environment.bound(context, ")
        self.write(f"environment.getattr(_v, {method!r})")
        for name, known in (("_loop_vars", frame.loop_frame), ("_block_vars", frame.block_frame)):
            if known:
                self.write(f", {name}={name}")
        self.write("))(")
        self._arguments(node.args, frame)
        self.write(")")

    @optimizeconst
    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:
        """`a + b + c`. Operands that cannot fail may be looked at before those in front are put together."""
        operands = _operands(node)
        groups = [operands[:2]]
        for operand in operands[2:]:
            if isinstance(operand, nodes.Const | nodes.Name):
                groups[-1].append(operand)
            else:
                groups.append([operand])
        for group in reversed(groups[1:]):
            self.write("_add(" if len(group) == 1 else "_chain(")
        self.write("_add(" if len(groups[0]) == 2 else "_chain(")
        self._arguments(groups[0], frame)
        for group in groups[1:]:
            self.write("), ")
            self._arguments(group, frame)
        self.write(")")

    @optimizeconst
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """`a ~ b`."""
        self.write("_joined(")
        self._arguments(node.nodes, frame)
        self.write(")")

    def _output_child_pre(
        self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo
    ) -> None:
        self.write("_out(")
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super()._output_child_pre(node, frame, finalize)

    def _output_child_post(
        self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo
    ) -> None:
        self.write(")")
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super()._output_child_post(node, frame, finalize)

    def _arguments(self, values: Sequence[nodes.Expr], frame: Frame) -> None:
        for index, value in enumerate(values):
            if index:
                self.write(", ")
            self.visit(value, frame)


def _operands(node: nodes.Expr) -> list[nodes.Expr]:
    """What a chain of `+` puts together. Fixed texts side by side are one."""
    behind: list[nodes.Expr] = []
    while isinstance(node, nodes.Add):
        behind.append(node.right)
        node = node.left
    operands = [node]
    for operand in reversed(behind):
        last = operands[-1]
        if (
            isinstance(operand, nodes.Const)
            and isinstance(last, nodes.Const)
            and type(operand.value) is type(last.value) is str
        ):
            operands[-1] = nodes.Const(last.value + operand.value, lineno=last.lineno)
        else:
            operands.append(operand)
    return operands
