"""What keeps memory: a list of losses keeps each graph, as its picture says; ``detach`` ends it."""

import gc
import weakref

import oplib


def main() -> None:
    weight = oplib.ones(1000, requires_grad=True)

    def train(history: list[oplib.Tensor], *, detach: bool) -> list[weakref.ref]:
        nodes = []
        for _ in range(5):
            x = oplib.randn(1000)
            loss = (x * weight).exp().mean()
            nodes.append(weakref.ref(loss.grad_fn))
            loss.backward(retain_graph=True)
            weight.grad = None
            history.append(loss.detach() if detach else loss)
        return nodes

    history: list[oplib.Tensor] = []
    nodes = train(history, detach=False)
    gc.collect()
    assert all(node() is not None for node in nodes)
    kept = oplib.visual.graph(history[0])
    assert kept.nbytes >= 2 * 1000 * 4  # x, and the result of exp
    assert "ExpBackward0" in str(kept)

    history = []
    nodes = train(history, detach=True)
    gc.collect()
    assert all(node() is None for node in nodes)
    assert all(loss.grad_fn is None for loss in history)


if __name__ == "__main__":
    main()
