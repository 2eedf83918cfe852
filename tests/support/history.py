"""Histories of client operations on allocations, and what they must never show. I5, I6, I7, I26.

Flow    clients record every operation with the instants of its call and of its answer; check() then looks for a history that no single
        correct copy of the state could have given, and accounts() compares what was acknowledged with the events of the state.
Shapes  an allocation is one object, since linearizability is local: all objects are linearizable exactly when the whole is (Herlihy and
        Wing 1990). The search is that of Wing and Gong (1993) with Lowe's memory of visited states: sound (it rejects only what has no
        order) and complete up to `budget` visited states per object; over the budget it says so, and that is never a pass.
Units   seconds of one monotonic clock of this process.
Absent  clocks of other processes: all clients are threads of one.
"""
import collections
import math

UNKNOWN = "unknown"      # no answer: it may take effect at any instant after its call, or never
REFUSED = "refused"      # the state said no
WRITES = ("register", "update", "ask", "cancel")

# kind: register, update (argument: the period), ask, cancel (argument: a checkpoint id), read
# result: UNKNOWN; REFUSED; for ask the checkpoint id; for read None (not there) or (period, active checkpoint id or 0); else True
Operation = collections.namedtuple("Operation", "client kind key argument called answered result index")


def step(state, operation, number):
    """The state after the operation, or the text "no" when the operation cannot have had this result in this state.
    state: None, or (period, active): 0, an id, or ("?", number) for the id of an ask whose answer never came."""
    kind, result = operation.kind, operation.result
    if kind == "read":
        return _step_read(state, result)
    if kind == "register":
        if state is not None:
            return state if result in (REFUSED, UNKNOWN) else "no"
        return "no" if result == REFUSED else (operation.argument, 0)
    if state is None:
        return state if result in (REFUSED, UNKNOWN) else "no"
    period, active = state
    if kind == "update":
        return "no" if result == REFUSED else (operation.argument, active)
    if kind == "ask":
        if active:
            return state if result in (REFUSED, UNKNOWN) else "no"
        if result == REFUSED:
            return "no"
        return (period, ("?", number) if result == UNKNOWN else result)
    assert kind == "cancel", kind
    if isinstance(active, tuple) and result != REFUSED:
        return (period, 0)
    if active == operation.argument:
        return "no" if result == REFUSED else (period, 0)
    return state if result in (REFUSED, UNKNOWN) else "no"


def _step_read(state, result):
    if state is None or result is None:
        return state if state is result else "no"
    if state[0] != result[0] or bool(state[1]) != bool(result[1]):
        return "no"
    if state[1] == result[1]:
        return state
    return result if isinstance(state[1], tuple) else "no"  # now the id of that ask is known


def check_object(operations, budget=200000):
    """None when one order explains all results, else a text."""
    operations = sorted((o for o in operations if not (o.kind == "read" and o.result == UNKNOWN)), key=lambda o: o.called)
    count = len(operations)
    required = sum(1 << i for i, o in enumerate(operations) if o.result != UNKNOWN)
    seen, stack, deepest = set(), [(0, None)], 0
    while stack:
        done, state = stack.pop()
        done = _take_what_changes_nothing(operations, done, state)
        if done & required == required:
            return None
        if (done, state) in seen:
            continue
        seen.add((done, state))
        if len(seen) > budget:
            return f"undecided after {budget} states of {count} operations"
        if bin(done & required).count("1") > bin(deepest & required).count("1"):
            deepest = done
        for i in reversed(_candidates(operations, done)):
            after = step(state, operations[i], i)
            if after != "no":
                stack.append((done | 1 << i, after))
    stuck = [operations[i] for i in _candidates(operations, deepest) if operations[i].result != UNKNOWN]
    return f"no order explains {[tuple(o) for o in stuck[:4]]} after {bin(deepest).count('1')} of {count} operations"


def _candidates(operations, done):
    """Those that may come next: none that has not come yet was answered before they were called."""
    found, first_answer = [], float("inf")
    for i, operation in enumerate(operations):
        if operation.called > first_answer:
            break
        if not done >> i & 1:
            found.append(i)
            if operation.result != UNKNOWN:
                first_answer = min(first_answer, operation.answered)
    return [i for i in found if operations[i].called <= first_answer]


def _take_what_changes_nothing(operations, done, state):
    """Reads and refusals that may come next and fit the state come now: they change nothing, and later they could only be harder to place.
    (Not a write of the value that is there already: it may be needed later, behind another write.)"""
    again = True
    while again:
        again = False
        for i in _candidates(operations, done):
            idle = operations[i].kind == "read" or operations[i].result == REFUSED
            if idle and step(state, operations[i], i) == state:
                done |= 1 << i
                again = True
    return done


def check_order_of_indexes(operations):
    """Across all objects: a write is at a higher log index, and a read at no lower one, than everything answered before its call."""
    faults, newest, seen = [], 0, 0
    answered = sorted((o for o in operations if o.index), key=lambda o: o.answered)
    for operation in sorted(answered, key=lambda o: o.called):
        while seen < len(answered) and answered[seen].answered < operation.called:
            newest = max(newest, answered[seen].index)
            seen += 1
        if operation.index < newest or (operation.index == newest and operation.kind in WRITES):
            faults.append(f"{tuple(operation)} is at index {operation.index}, but {newest} had been answered before its call")
    return faults


def check_identifiers(operations):
    """I26: checkpoint ids are never given twice and increase with the log."""
    asked = sorted((o for o in operations if o.kind == "ask" and o.result not in (UNKNOWN, REFUSED)), key=lambda o: (o.index, o.result))
    identifiers = [o.result for o in asked]
    faults = [f"checkpoint {i} was given {n} times" for i, n in collections.Counter(identifiers).items() if n > 1]
    return faults + [f"checkpoint {b} at a higher index than {a}" for a, b in zip(identifiers, identifiers[1:]) if b < a]


def check(operations, budget=200000):
    """Texts of everything that is wrong, empty when nothing is."""
    objects = collections.defaultdict(list)
    for operation in operations:
        objects[operation.key].append(operation)
    faults = [f"{key}: {fault}" for key, of_it in objects.items() if (fault := check_object(of_it, budget))]
    return faults + check_order_of_indexes(operations) + check_identifiers(operations)


def check_stale(operations, events, stale):
    """A stale answer is the state at the index that it names: that of the newest write at or before it. stale: Operations of kind read
    with index. An unanswered write that took effect (an event of which no answer tells) leaves the value open until the next one."""
    values, faults = collections.defaultdict(list), []  # of each key: (index, order, period or None when it is open)
    for o in operations:
        if o.kind in ("register", "update") and o.result not in (UNKNOWN, REFUSED):
            values[o.key].append((o.index, o.argument))
    told = collections.Counter((o.kind, o.key, o.index) for o in operations if o.kind in WRITES and o.result not in (UNKNOWN, REFUSED))
    happened = collections.Counter((kind, key, index) for kind, key, index, _ in events if kind in ("register", "update"))
    for _, key, index in happened - told:
        values[key].append((index, None))
    for o in stale:
        before = [v for v in values[o.key] if v[0] <= o.index]
        newest = max((v[0] for v in before), default=0)
        possible = {v[1] for v in before if v[0] == newest}  # several in one entry of the log: any of them
        if o.result is None and before:
            faults.append(f"{o.key} is not there at index {o.index}, but registered at {min(before, key=lambda v: v[0])[0]}")
        elif o.result is not None and None not in possible and o.result[0] not in possible:
            at = [v[0] for v in values[o.key] if v[1] == o.result[0]]
            faults.append(f"{o.key} was {o.result[0]} (written at {at}) at index {o.index}, but {sorted(possible)} was written at {newest}")
    return faults


Account = collections.namedtuple("Account", "acknowledged lost twice faults")


def accounts(operations, events):
    """Every acknowledged write has its one event; every event is that of a write. events: (kind, key, index, checkpoint id), each once,
    with kind as in WRITES. An event of no acknowledged write must be one of those without an answer, of the same kind on the same key."""
    told, unknown, happened = collections.Counter(), collections.Counter(), collections.Counter()
    for o in operations:
        if o.kind in WRITES and o.result == UNKNOWN:
            unknown[o.kind, o.key] += 1
        elif o.kind in WRITES and o.result != REFUSED:
            identifier = o.result if o.kind == "ask" else o.argument if o.kind == "cancel" else 0
            told[o.kind, o.key, o.index, identifier] += 1
    for kind, key, index, identifier in events:
        happened[kind, key, index, identifier if kind in ("ask", "cancel") else 0] += 1
    lost, spare = told - happened, collections.Counter()
    for what, n in (happened - told).items():
        spare[what[:2]] += n
    faults = [f"acknowledged, but not in the state: {what} x{n}" for what, n in list(lost.items())[:5]]
    more = {what: n - unknown[what] for what, n in spare.items() if n > unknown[what]}
    faults += [f"{kind} of {key} took effect {n} times more than was answered or left without an answer"
               for (kind, key), n in list(more.items())[:5]]
    return Account(sum(told.values()), sum(lost.values()), sum(more.values()), faults)


def quantile(values, share):
    """The smallest value that is not exceeded by this share of all."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]
