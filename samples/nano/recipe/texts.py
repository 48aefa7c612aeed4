"""Sentences of a closed domain, by both sides of a phone call: our own, filled with names, days and numbers."""

import random
from collections.abc import Sequence

FIRST = [
    "Anna",
    "Maria",
    "Tom",
    "Nora",
    "Peter",
    "James",
    "Sarah",
    "Laura",
    "David",
    "Emma",
    "Paul",
    "Lisa",
    "Mark",
    "Helen",
    "Kevin",
    "Alice",
    "Daniel",
    "Grace",
    "Simon",
    "Rachel",
    "Oliver",
    "Susan",
    "Henry",
    "Julia",
    "Robert",
    "Karen",
    "Victor",
    "Diana",
]
LAST = [
    "Field",
    "Carter",
    "Miller",
    "Stone",
    "Baker",
    "Turner",
    "Wood",
    "Hill",
    "Brooks",
    "Cooper",
    "Gray",
    "Fisher",
    "Parker",
    "Bell",
    "Walker",
    "Young",
    "Morgan",
    "Reed",
    "Palmer",
    "Foster",
]
COMPANIES = (
    "Green Valley Bank",
    "Blue Harbor Hotel",
    "Sunrise Clinic",
    "North Star Airlines",
    "City Power",
    "Rapid Parcel",
    "Silver Lake Insurance",
    "Bright Line Telecom",
    "Golden Fork Restaurant",
    "Happy Home Repair",
    "Metro Car Rental",
    "Oak Street Pharmacy",
)
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
HOURS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
TIMES = ("{h} o'clock", "half past {h}", "{h} thirty", "{h} fifteen", "{h} A M", "{h} P M")

SENTENCES = """\
Thank you for calling {company}, this is {first}. How can I help you?
Good morning, {company}, {first} speaking. What can I do for you?
Hello, you have reached {company}. My name is {first}. How may I help?
Sure, I can help you with that. Can I have your name please?
Of course, {first}. What is your account number?
Thank you, {first} {last}. I have found your account.
Your appointment is on {day} at {time}.
We have a free slot on {day} at {time}. Would that suit you?
I can offer you {day} the {number} of {month}, at {time}.
That will be {amount} dollars.
The price is {amount} dollars a night.
The fee is {amount} dollars and {cents} cents.
Your balance is {amount} dollars.
Your parcel is on its way. It will arrive on {day}, before {time}.
The parcel was delivered on {day}.
Your order number is {digits}.
Could you read me the order number, please?
I have booked a table for {number} people on {day} at {time}.
How many guests will there be?
We have two rooms free from {day} to {until}.
Check in is from {time}.
The flight leaves at {time} from gate {number}.
Your flight is delayed by {amount} minutes.
Would you like a window seat or an aisle seat?
The power should be back by {time}.
A technician will come on {day} between {number} and {other}.
Please restart the router and wait for {number} minutes.
I have blocked your card. A new one will arrive in {number} days.
For security, may I have your date of birth?
The last four digits are {digits}.
Your prescription is ready. You can pick it up until {time}.
Please take {number} tablets a day after meals.
Is there anything else I can do for you?
Anything else I can help you with today?
You're welcome. Have a nice day, goodbye.
Thank you for calling {company}. Goodbye.
Let me check that for you. One moment, please.
I'm sorry to hear that. Let me see what I can do.
The car costs {amount} dollars a day, with insurance.
You can collect the keys at {time} on {day}.
I will send you a message when it is ready.
Mhm.
Okay.
I see.
Right.
Yes, of course.
No, I am afraid not.
Hi, this is {first} {last}. I lost my card.
I would like to book a room for {number} nights.
When will my parcel arrive?
Can I move my appointment to {day}?
My internet is not working since {day}.
How much does it cost?
Do you have a table for {number} on {day}?
Great, thank you very much. Bye.
I need a car from {day} to {until}.
Is my medicine ready? My name is {first} {last}.
The lights went out at {time}.
My number is {digits}.
Um, I think it was on {day}.
Oh, sorry, I meant {day}, at {time}.
""".splitlines()

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelt(number: int) -> str:
    """A number below 1,000 in words."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10 - 2] + (f" {_ONES[number % 10]}" if number % 10 else "")
    rest = number % 100
    return f"{_ONES[number // 100]} hundred" + (f" and {spelt(rest)}" if rest else "")


def filled(sentence: str, rng: random.Random) -> str:
    """A sentence of `SENTENCES` with its fields drawn."""
    return sentence.format(
        first=rng.choice(FIRST),
        last=rng.choice(LAST),
        company=rng.choice(COMPANIES),
        day=rng.choice(DAYS),
        until=rng.choice(DAYS),
        month=rng.choice(MONTHS),
        number=rng.choice(HOURS[1:]),
        other=rng.choice(HOURS[1:]),
        time=rng.choice(TIMES).format(h=rng.choice(HOURS)),
        amount=spelt(rng.randint(2, 400)),
        cents=spelt(rng.randint(10, 99)),
        digits=" ".join(rng.choice(_ONES[1:10]) for _ in range(4)),
    )


def drawn(count: int, seed: int, without: Sequence[str] = ()) -> list[str]:
    """`count` sentences that follow from the seed, none of them among `without`."""
    rng, refused = random.Random(seed), set(without)  # noqa: S311 - texts, not secrets
    sentences: list[str] = []
    while len(sentences) < count:
        sentence = filled(rng.choice(SENTENCES), rng)
        if sentence not in refused:
            sentences.append(sentence)
    return sentences
