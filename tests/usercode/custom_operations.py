"""Operations that several tests of user code share."""

import numpy as np

import sweepgrad as sg


class Cube(sg.Function):
    """x³, its rule written in operations on tensors."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3.0 * x * x


class ProductAndSum(sg.Function):
    """x y and x + y; the rule uses an own result."""

    @staticmethod
    def forward(ctx, x, y):
        product, total = x * y, x + y
        ctx.save_for_backward(x, y, product)
        return product, total

    @staticmethod
    def backward(ctx, g_product, g_total):
        x, _, product = ctx.saved_tensors
        return g_product * product / x + g_total, g_product * x + g_total


class Shifted(sg.Function):
    """x + amount; counts how often its rule runs."""

    runs = 0

    @staticmethod
    def forward(ctx, x, amount):
        return x + amount

    @staticmethod
    def backward(ctx, g):
        Shifted.runs += 1
        return g, None


def ruled(rule, name="Ruled"):
    """An operation of one argument with its value, and this rule: ``rule(x, g)`` on tensors."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.numpy()

    def backward(ctx, g):
        return rule(ctx.saved_tensors[0], g)

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (sg.Function,), body)


def leaf(value, dtype=np.float64):
    """A tracked leaf."""
    return sg.tensor(np.asarray(value, dtype), requires_grad=True)
