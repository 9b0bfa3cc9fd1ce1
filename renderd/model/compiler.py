"""Chat templates as Python that is cheap to run.

Jinja compiles a template to Python in which every look-up, operation and call goes through its sandbox.
Nearly all of them are on a few types, for which the sandbox has nothing to say: an item of a JSON object, two
texts put together, a method of a text. Here these are written out, behind a look at the type; whatever is of
another type goes the sandbox's way. What is evaluated, and in which order, stays as it is: so do texts and
errors.

The code counts for `renderd.model.sandbox`: `_step`, `_make`, `_add`, `_chain`, `_joined` and `_out` are
methods of the `Spent` of a rendering.
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
_QUICK = "Quick"
"""What stands before the name of the class of a loop that nothing is done with but what _OF_LOOP says."""
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
    """Jinja's compiler for `renderd.model.sandbox.CountingEnvironment`."""

    _sums = 0
    """Names of values that were put together so far."""

    def write_commons(self) -> None:
        """What the code of a template and of each block begins with."""
        super().write_commons()
        self.writeline("_spent, ListLoop = environment.spent(), environment.ListLoop")
        self.writeline(f"{_QUICK}LoopContext = environment.loop")
        for name in ("step", "make", "add", "chain", "joined", "out"):
            self.writeline(f"_{name} = _spent.{name}")

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        """A loop. What it says of itself is cheaper to find out where nothing else is done with it."""
        attributes = [found.node for found in node.find_all(nodes.Getattr) if found.attr in _OF_LOOP]
        names = [found for found in node.find_all(nodes.Name) if found.name == "loop"]
        self._quick = not node.recursive and all(any(a is name for a in attributes) for name in names)
        super().visit_For(node, frame)

    def choose_async(self, async_value: str = "async ", sync_value: str = "") -> str:
        """Called before the name of the class of a loop, for one."""
        return _QUICK if async_value == "Async" and self._quick else sync_value

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
        if looped:
            quick = {"first": "_v.index0 == 0", "last": "_v.index0 == _v._last"}
            self.write(f"({quick.get(node.attr, f'_v.{node.attr}')} if type(_v := ")
            self.visit(node.node, frame)
            self.write(f") is ListLoop else environment.field(_v, {node.attr!r}))")
            return
        self.write(f"(_v[{node.attr!r}] if type(_v := ")
        self.visit(node.node, frame)
        self.write(f") is dict and {node.attr!r} in _v else environment.field(_v, {node.attr!r}))")

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
    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        """`'</think>' in a`: most texts do not have the first character, which is found out far sooner."""
        sought, operand = node.expr, node.ops[0]
        text = sought.value if isinstance(sought, nodes.Const) else None
        if operand.op not in ("in", "notin") or len(node.ops) > 1 or not isinstance(text, str):
            super().visit_Compare(node, frame)
            return
        negated = "not " if operand.op == "notin" else ""
        self.write(f"({negated}({text[:1]!r} in _v and {text!r} in _v if type(_v := ")
        self.visit(operand.expr, frame)
        self.write(f") is str else {text!r} in _v))")

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
        self._sum(groups, frame)

    def _sum(self, groups: list[list[nodes.Expr]], frame: Frame) -> None:
        """What the groups make, from left to right. Most often all are texts, some of them fixed."""
        *before, group = groups
        if not any(_is_text(operand) for operand in group):
            self.write("_add(" if len(group) + bool(before) == 2 else "_chain(")
            if before:
                self._sum(before, frame)
                self.write(", ")
            self._arguments(group, frame)
            self.write(")")
            return
        names: list[str] = []
        parts: list[str] = []
        tested: list[nodes.Expr | None] = []
        for operand in [None, *group] if before else group:
            if operand is not None and _is_text(operand):
                parts.append(repr(operand.as_const()))
                continue
            names.append(f"_{self._sums}")
            parts.append(names[-1])
            tested.append(operand)
            self._sums += 1
        self.write(f"(''.join(({', '.join(parts)})) if ")
        for name, operand in zip(names, tested, strict=True):
            self.write(f"(type({name} := ")
            if operand is None:
                self._sum(before, frame)
            else:
                self.visit(operand, frame)
            self.write(") is str) & ")
        size = sum(len(operand.as_const()) for operand in group if _is_text(operand))
        lengths = "".join(f" + len({name})" for name in names)
        self.write(f"True and not _make({size}{lengths}) else _chain({', '.join(parts)}))")

    @optimizeconst
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        """`a ~ b`."""
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super().visit_Concat(node, frame)
            return
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


def _is_text(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Const) and type(node.value) is str


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
