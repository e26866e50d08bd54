"""A small airline: the tools that the recorded calls of the notebooks ask for.

1. Every tool is a function over the dictionaries below; nothing leaves this process.
2. A tool that only looks says so with ``read_only=True``. The others say nothing, so a person is asked about them.
3. What cannot be done raises `ToolError`; its message is what the model reads.
"""

import ast
import copy
import json
import math
import operator
from pathlib import Path
from typing import Any, Literal

from agentperm_nb import ToolCall, ToolError, tool

__all__ = ["TOOLS", "calculate", "calls_of", "reset"]

Cabin = Literal["basic_economy", "economy", "business"]

_RECORDING = Path(__file__).parent / "data" / "airline_calls.jsonl"

_AIRPORTS = {
    "ATL": "Atlanta",
    "IAH": "Houston",
    "JFK": "New York",
    "LAS": "Las Vegas",
    "LAX": "Los Angeles",
    "MCO": "Orlando",
    "SEA": "Seattle",
    "SFO": "San Francisco",
}


def _flight(
    origin: str, destination: str, departs: str, basic_economy: int, economy: int, business: int
) -> dict[str, Any]:
    prices = {"basic_economy": basic_economy, "economy": economy, "business": business}
    return {"origin": origin, "destination": destination, "departs": departs, "prices": prices}


_FLIGHTS = {  # every flight leaves every day
    "HAT010": _flight("ATL", "MCO", "18:00", 61, 109, 412),
    "HAT023": _flight("JFK", "SFO", "10:00", 55, 129, 364),
    "HAT069": _flight("JFK", "SEA", "06:00", 53, 121, 333),
    "HAT083": _flight("JFK", "SEA", "13:00", 87, 100, 276),
    "HAT112": _flight("IAH", "LAS", "08:00", 64, 148, 307),
    "HAT136": _flight("JFK", "LAX", "09:00", 72, 163, 401),
    "HAT177": _flight("SFO", "JFK", "11:00", 68, 151, 388),
    "HAT266": _flight("LAS", "IAH", "15:00", 59, 142, 296),
    "HAT268": _flight("JFK", "ATL", "12:00", 70, 136, 430),
    "HAT276": _flight("SEA", "JFK", "17:00", 53, 118, 341),
}


def _method(kind: str, **details: Any) -> dict[str, Any]:
    return {"kind": kind, **details}


_USERS = {
    "aarav_ahmed_6699": {
        "name": "Aarav Ahmed",
        "membership": "silver",
        "payment_methods": {
            "credit_card_9074831": _method("credit_card"),
            "gift_card_8847921": _method("gift_card", amount=156),
        },
    },
    "james_taylor_7043": {
        "name": "James Taylor",
        "membership": "gold",
        "payment_methods": {
            "certificate_9380982": _method("certificate", amount=250),
            "gift_card_5634230": _method("gift_card", amount=185),
        },
    },
    "mia_kim_4397": {
        "name": "Mia Kim",
        "membership": "silver",
        "payment_methods": {
            "gift_card_7359776": _method("gift_card", amount=39),
            "gift_card_7773485": _method("gift_card", amount=67),
        },
    },
    "noah_muller_9847": {
        "name": "Noah Muller",
        "membership": "gold",
        "payment_methods": {"credit_card_9178106": _method("credit_card")},
    },
}


def _leg(number: str, date: str) -> dict[str, str]:
    return {"flight_number": number, "date": date}


def _reservation(user_id: str, cabin: str, *flights: dict[str, str], insurance: str = "no") -> dict[str, Any]:
    return {"user_id": user_id, "cabin": cabin, "flights": list(flights), "insurance": insurance, "status": "booked"}


_RESERVATIONS = {
    "1N99U6": _reservation(
        "james_taylor_7043", "basic_economy", _leg("HAT266", "2024-05-19"), _leg("HAT112", "2024-05-27")
    ),
    "4OG6T3": _reservation("noah_muller_9847", "economy", _leg("HAT112", "2024-05-14"), insurance="yes"),
    "H9ZU1C": _reservation("mia_kim_4397", "basic_economy", _leg("HAT069", "2024-05-20"), _leg("HAT276", "2024-05-25")),
    "IFOYYZ": _reservation("aarav_ahmed_6699", "basic_economy", _leg("HAT023", "2024-05-18")),
    "M20IZO": _reservation("aarav_ahmed_6699", "economy", _leg("HAT268", "2024-05-22"), _leg("HAT010", "2024-05-22")),
    "NQNU5R": _reservation("aarav_ahmed_6699", "business", _leg("HAT177", "2024-05-13")),
    "SDZQKO": _reservation("noah_muller_9847", "economy", _leg("HAT023", "2024-05-15")),
}

users: dict[str, Any] = {}
reservations: dict[str, Any] = {}


def reset() -> None:
    """Put the airline back to how it was."""
    for current, start in ((users, _USERS), (reservations, _RESERVATIONS)):
        current.clear()
        current.update(copy.deepcopy(start))


reset()


def calls_of(run: str) -> list[ToolCall]:
    """Return the calls of one recorded run, in order.

    Args:
        run: Its name, such as ``"task26-trial2"``.

    Raises:
        ValueError: The recording has no such run.
    """
    rows = [json.loads(line) for line in _RECORDING.read_text(encoding="utf-8").splitlines()]
    calls = [ToolCall(row["tool"], row["args"], id=row["call_id"]) for row in rows if row["run"] == run]
    if not calls:
        raise ValueError(f"no run is named {run!r}; there are {', '.join(sorted({row['run'] for row in rows}))}")
    return calls


# --- what only looks -------------------------------------------------------------------------------------------------


@tool(read_only=True, open_world=False)
def get_user_details(user_id: str) -> dict[str, Any]:
    """Look up a customer: name, membership, ways to pay."""
    return copy.deepcopy(_find(users, user_id, "customer"))


@tool(read_only=True, open_world=False)
def get_reservation_details(reservation_id: str) -> dict[str, Any]:
    """Look up a reservation: customer, cabin, flights, insurance, status."""
    return copy.deepcopy(_find(reservations, reservation_id, "reservation"))


@tool(read_only=True, open_world=False)
def list_all_airports() -> dict[str, str]:
    """List the airports, code to city."""
    return dict(_AIRPORTS)


@tool(read_only=True, open_world=False)
def search_direct_flight(origin: str, destination: str, date: str) -> list[dict[str, Any]]:
    """Search the direct flights between two airports on a day.

    Airports are given by code (JFK), the day as YYYY-MM-DD.
    """
    return [
        {"flight_number": number, "date": date, "departs": flight["departs"], "prices": dict(flight["prices"])}
        for number, flight in _FLIGHTS.items()
        if (flight["origin"], flight["destination"]) == (origin, destination)
    ]


@tool(read_only=True, open_world=False)
def calculate(expression: str) -> float:
    """Work out an expression of numbers, + - * / and parentheses."""
    if len(expression) > 200:
        raise ToolError("the expression is longer than 200 characters")
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ToolError(f"{expression!r} cannot be worked out: {error}") from error
    if not math.isfinite(value):
        raise ToolError(f"{expression!r} is not a finite number")
    return round(value, 2)


@tool(read_only=True, open_world=False)
def think(thought: str) -> str:
    """Write a thought down. It changes nothing."""
    return "noted"


# --- what changes something ------------------------------------------------------------------------------------------


@tool
def cancel_reservation(reservation_id: str) -> dict[str, Any]:
    """Cancel a whole reservation."""
    reservation = _find(reservations, reservation_id, "reservation")
    reservation["status"] = "cancelled"
    return copy.deepcopy(reservation)


@tool
def update_reservation_flights(
    reservation_id: str, cabin: Cabin, flights: list[dict[str, str]], payment_id: str
) -> dict[str, Any]:
    """Change the cabin or the flights of a reservation.

    `flights` are all flights of the new reservation, each with flight_number and date. The difference in price is
    charged to, or paid back to, the way to pay `payment_id`; a certificate is not taken.
    """
    reservation = _find(reservations, reservation_id, "reservation")
    difference = _price(flights, cabin) - _price(reservation["flights"], reservation["cabin"])
    method = _find(users[reservation["user_id"]]["payment_methods"], payment_id, "way to pay of this customer")
    if method["kind"] == "certificate":
        raise ToolError("a certificate cannot pay for a change of a reservation")
    _charge(method, difference)
    reservation.update(cabin=cabin, flights=copy.deepcopy(flights))
    return {"charged": difference, **copy.deepcopy(reservation)}


@tool
def book_reservation(
    user_id: str,
    origin: str,
    destination: str,
    flight_type: Literal["one_way", "round_trip"],
    cabin: Cabin,
    flights: list[dict[str, str]],
    passengers: list[dict[str, str]],
    payment_methods: list[dict[str, Any]],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: Literal["yes", "no"],
) -> dict[str, Any]:
    """Book flights.

    `flights` have flight_number and date, `passengers` first_name, last_name and dob, `payment_methods` payment_id and
    amount. A bag that is not free costs 50, insurance 30 a passenger; the amounts must add up to the price.
    """
    user = _find(users, user_id, "customer")
    price = len(passengers) * (_price(flights, cabin) + (30 if insurance == "yes" else 0)) + 50 * nonfree_baggages
    paid = sum(method["amount"] for method in payment_methods)
    if paid != price:
        raise ToolError(f"the amounts add up to {paid}, the price is {price}")
    for method in payment_methods:
        _charge(_find(user["payment_methods"], method["payment_id"], "way to pay of this customer"), method["amount"])
    reservation_id = f"NEW{len(reservations):03}"
    reservations[reservation_id] = _reservation(user_id, cabin, *copy.deepcopy(flights), insurance=insurance)
    return {"reservation_id": reservation_id, "charged": price, **copy.deepcopy(reservations[reservation_id])}


@tool
def send_certificate(user_id: str, amount: int) -> str:
    """Send a customer a certificate, which pays for a later booking. The amount is in dollars."""
    user = _find(users, user_id, "customer")
    user["payment_methods"][f"certificate_{len(user['payment_methods']):07}"] = _method("certificate", amount=amount)
    return f"certificate of {amount} dollars sent to {user['name']}"


@tool
def transfer_to_human_agents(summary: str) -> str:
    """Hand the customer over to a person, with a summary."""
    return "handed over"


TOOLS = [
    get_user_details,
    get_reservation_details,
    list_all_airports,
    search_direct_flight,
    calculate,
    think,
    cancel_reservation,
    update_reservation_flights,
    book_reservation,
    send_certificate,
    transfer_to_human_agents,
]


# --- how they do it --------------------------------------------------------------------------------------------------

_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _find(table: dict[str, Any], key: str, what: str) -> Any:
    if key not in table:
        raise ToolError(f"{key} is not a {what}")
    return table[key]


def _price(flights: list[dict[str, str]], cabin: str) -> int:
    return sum(_find(_FLIGHTS, flight["flight_number"], "flight")["prices"][cabin] for flight in flights)


def _charge(method: dict[str, Any], amount: int) -> None:
    if "amount" in method:
        if amount > method["amount"]:
            raise ToolError(f"the {method['kind'].replace('_', ' ')} holds only {method['amount']}")
        method["amount"] -= amount


def _value(node: ast.expr) -> float:
    """Return the value of an arithmetic expression; anything but numbers and the four operations is refused."""
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand))
    raise ToolError("only numbers, + - * / and parentheses are worked out")
