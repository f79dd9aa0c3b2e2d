"""``oplib.modes``: the modes of a thread, and of the blocks that tasks of asyncio enter."""

import asyncio
import gc
import threading
import warnings

import pytest

import oplib
from oplib.autograd import forward_ad
from oplib.autograd.grad_mode import recording_off
from oplib.autograd.graph import (
    disable_saved_tensors_hooks,
    node_creation_hook,
    record_locations,
    saved_tensors_hooks,
)
from oplib.errors import MisplacedCallError
from oplib.modes import modes


def quiet_anomaly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return oplib.autograd.detect_anomaly()


BLOCKS = {
    "no_grad": (oplib.no_grad, "grad_enabled"),
    "set_grad_enabled": (lambda: oplib.set_grad_enabled(False), "grad_enabled"),
    "inference_mode": (oplib.inference_mode, "inference"),
    "set_multithreading_enabled": (
        lambda: oplib.autograd.grad_mode.set_multithreading_enabled(False),
        "multithreading",
    ),
    "_set_fwd_grad_enabled": (lambda: forward_ad._set_fwd_grad_enabled(False), "forward_enabled"),
    "record_locations": (lambda: record_locations(False), "locations"),
    "detect_anomaly": (quiet_anomaly, "anomaly"),
    "set_detect_anomaly": (lambda: oplib.autograd.set_detect_anomaly(True), "anomaly"),
    "saved_tensors_hooks": (lambda: saved_tensors_hooks(lambda t: t, lambda t: t), "hook_pairs"),
    "node_creation_hook": (lambda: node_creation_hook(lambda node: None), "creation_hooks"),
    "disable_saved_tensors_hooks": (lambda: disable_saved_tensors_hooks("off"), "hooks_disabled"),
}
each_block = pytest.mark.parametrize(("make", "name"), BLOCKS.values(), ids=BLOCKS)


def ask(name):
    return bool(getattr(modes.state, name)), modes.state.watchers


@each_block
def test_blocks_of_two_tasks_that_interleave_do_not_see_each_other(make, name):
    outside, seen = ask(name), {}

    async def enter(key, other, before, after):
        with make():
            inside = ask(name)
            before.set()
            await other.wait()
            seen[key] = inside, ask(name)
        seen[key, "after"] = ask(name)
        after.set()

    async def both():
        a_in, b_in, a_out, b_out, never = (asyncio.Event() for _ in range(5))
        never.set()
        bystander = []

        async def watch():
            for event in (a_in, b_in, a_out, b_out):
                await event.wait()
                bystander.append(ask(name))

        async def second():
            await a_in.wait()
            await enter("b", a_out, b_in, b_out)  # A, B, end of A, end of B

        await asyncio.gather(enter("a", b_in, a_in, a_out), second(), watch())
        return bystander

    bystander = asyncio.run(both())
    assert seen["a"][0] == seen["a"][1] == seen["b"][0] == seen["b"][1] != outside
    assert [seen["a", "after"], seen["b", "after"], *bystander] == [outside] * 6
    assert ask(name) == outside
    assert vars(modes)["state"] is modes.own  # calls look nothing up


@each_block
def test_tasks_that_a_block_starts_run_in_its_modes_until_it_ends(make, name):
    outside = ask(name)

    async def child(released):
        first = ask(name)
        await released.wait()
        return first, ask(name)

    async def parent():
        released = asyncio.Event()
        with make():
            inside = ask(name)
            within = await asyncio.gather(look(), look())
            task = asyncio.create_task(child(released))
            await asyncio.sleep(0)
        released.set()
        return inside, within, await task

    async def look():
        await asyncio.sleep(0)
        return ask(name)

    inside, within, (first, last) = asyncio.run(parent())
    assert inside != outside
    assert within == [inside, inside]
    assert (first, last) == (inside, outside)
    assert ask(name) == outside


def test_nested_blocks_of_a_task_end_one_by_one():
    async def nest():
        seen = [oplib.is_grad_enabled()]
        with oplib.no_grad():
            await asyncio.sleep(0)
            seen.append(oplib.is_grad_enabled())
            with oplib.enable_grad():
                await asyncio.sleep(0)
                seen.append(oplib.is_grad_enabled())
            await asyncio.sleep(0)
            seen.append(oplib.is_grad_enabled())
        return [*seen, oplib.is_grad_enabled()]

    async def several():
        return await asyncio.gather(nest(), nest(), nest())

    assert asyncio.run(several()) == [[True, False, True, False, True]] * 3


def test_code_of_oplib_that_records_nothing_ends_no_block_of_a_task():
    async def enter():
        with oplib.enable_grad(), oplib.no_grad():
            with recording_off():
                await asyncio.sleep(0)
            return oplib.is_grad_enabled(), len(modes.open_blocks)

    assert asyncio.run(enter()) == (False, 2)


def test_gradients_of_a_task_do_not_depend_on_a_block_of_another():
    async def train():
        w = oplib.ones(2, requires_grad=True)
        for _ in range(3):
            loss = (w * w).sum()
            await asyncio.sleep(0)
            loss.backward()
            await asyncio.sleep(0)
        return w.grad.tolist()

    async def evaluate():
        results = []
        for _ in range(6):
            with oplib.no_grad():
                x = oplib.ones(2, requires_grad=True) * 2
                await asyncio.sleep(0)
                results.append(x.requires_grad or (x * 2).requires_grad)
        return results

    async def both():
        return await asyncio.gather(train(), evaluate(), train())

    assert asyncio.run(both()) == [[6.0, 6.0], [False] * 6, [6.0, 6.0]]


def test_a_coroutine_that_is_dropped_in_a_block_changes_no_mode_elsewhere():
    async def enter():
        with oplib.no_grad():
            await asyncio.Event().wait()

    async def drop():
        held = enter()
        held.send(None)
        with oplib.no_grad():
            del held
            gc.collect()
            return oplib.is_grad_enabled()

    assert not asyncio.run(drop())
    assert oplib.is_grad_enabled()
    assert vars(modes)["state"] is modes.own


def test_a_block_ends_in_another_thread_without_a_trace_there():
    async def enter():
        with oplib.no_grad():
            await asyncio.Event().wait()

    def close_elsewhere(held):
        with oplib.no_grad():
            held.close()
            seen.append(oplib.is_grad_enabled())

    seen = []

    async def move():
        held = enter()
        held.send(None)
        thread = threading.Thread(target=close_elsewhere, args=(held,))
        thread.start()
        thread.join()
        return oplib.is_grad_enabled()

    assert asyncio.run(move())
    assert seen == [False]


def test_a_thread_that_a_task_starts_has_modes_of_its_own():
    async def enter():
        with oplib.no_grad():
            return await asyncio.to_thread(lambda: (oplib.is_grad_enabled(), _enter_block_of_a_loop()))

    def _enter_block_of_a_loop():
        async def inner():
            return oplib.is_grad_enabled()

        async def outer():
            with oplib.set_grad_enabled(True):
                return await asyncio.gather(inner(), inner())

        return asyncio.run(outer()), oplib.is_grad_enabled()

    assert asyncio.run(enter()) == (True, ([True, True], True))


def test_set_grad_enabled_as_a_function_is_for_the_thread():
    async def switch():
        oplib.set_grad_enabled(False)
        await asyncio.sleep(0)

    async def look():
        await asyncio.sleep(0)
        return oplib.is_grad_enabled()

    async def both():
        return (await asyncio.gather(switch(), look()))[1]

    try:
        assert not asyncio.run(both())
        assert not oplib.is_grad_enabled()
    finally:
        oplib.set_grad_enabled(True)


def test_programs_and_backwards_in_blocks_of_tasks_keep_to_the_modes_of_their_task():
    @oplib.jit
    def double(x):
        return x * 2

    x = oplib.ones(2, requires_grad=True)

    async def call(block):
        results = []
        for _ in range(3):
            with block():
                await asyncio.sleep(0)
                results.append(double(x).requires_grad)
        return results

    async def both():
        return await asyncio.gather(call(oplib.no_grad), call(oplib.enable_grad), call(oplib.inference_mode))

    assert asyncio.run(both()) == [[False] * 3, [True] * 3, [False] * 3]
    assert double.compilations == 3


def test_autocast_of_a_task_that_waits_is_refused_for_other_tasks():
    async def wait(event):
        x = oplib.ones(2, 2)
        with oplib.autocast("cpu"):
            await event.wait()
            return (x @ x).dtype, await asyncio.gather(multiply())

    async def multiply():
        x = oplib.ones(2, 2)
        await asyncio.sleep(0)
        return (x @ x).dtype

    async def both(other):
        event = asyncio.Event()
        task = asyncio.create_task(wait(event))
        await asyncio.sleep(0)
        try:
            with pytest.raises(MisplacedCallError, match="leave the block before each await"):
                await other()
        finally:
            event.set()
        return await task, await multiply()

    async def own():
        with oplib.autocast("cpu", dtype=oplib.float16):
            await multiply()

    for other in (multiply, own):
        low, full = oplib.bfloat16, oplib.float32
        assert asyncio.run(both(other)) == ((low, [low]), full)
    assert not oplib.is_autocast_enabled("cpu")
    assert vars(modes)["state"] is modes.own


def test_autocast_decorates_coroutines_that_take_turns():
    async def multiply():
        x, dtypes = oplib.ones(2, 2), []
        for _ in range(2):
            dtypes.append((x @ x).dtype)
            await asyncio.sleep(0)
        return dtypes

    async def both():
        low, half = oplib.autocast("cpu"), oplib.autocast("cpu", dtype=oplib.float16)
        return await asyncio.gather(low(multiply)(), multiply(), half(multiply)())

    assert asyncio.run(both()) == [[oplib.bfloat16] * 2, [oplib.float32] * 2, [oplib.float16] * 2]
