"""The words of the primer: nouns by class, verbs and adjectives by the noun classes they select.

A verb lists the noun classes of its subject and object, an adjective the classes it describes. So a
model can learn which words can occur in which position. Lists are in order of frequency and are
drawn from with Zipf weights; the first word is the most probable. Costs: nothing after the import.
"""

from dataclasses import dataclass
from itertools import product

from workbench.corpora.primer.english import Verb, Word, adjective, noun, verb

GROUPS: dict[str, str] = {
    "animate": "person animal",
    "edible": "food drink",
    "object": "tool container vessel instrument garment text",
    "movable": "tool container vessel instrument garment text furniture",
    "ware": "food drink tool container vessel instrument garment text furniture vehicle",
    "nature": "land water",
    "place": "building land water",
    "concrete": "person animal food drink tool container vessel instrument garment text "
    "furniture vehicle building "
    "land water plant",
}


def classes(text: str) -> frozenset[str]:
    """The noun classes of a list of classes and groups."""
    return frozenset(part for item in text.split() for part in GROUPS.get(item, item).split())


@dataclass(frozen=True, eq=False)
class Noun:
    """A common noun; `gender` is set only if the word has one."""

    forms: tuple[Word, Word]
    cls: str
    gender: str = ""

    @property
    def lemma(self) -> str:
        return self.forms[0].lemma


@dataclass(frozen=True, eq=False)
class Frame:
    """A verb with the noun classes it selects, its kind of event, and its further argument."""

    verb: Verb
    subject: frozenset[str]
    object: frozenset[str]
    kind: str
    goal: str = ""  # prepositions of a further argument
    goal_classes: frozenset[str] = frozenset()  # noun classes of the further argument
    reflexive: bool = False

    @property
    def lemma(self) -> str:
        return self.verb.lemma


_NOUNS = {
    "person": "woman/f man/m girl/f boy/m teacher child farmer doctor student neighbour queen/f "
    "king/m mother/f father/m "
    "sister/f brother/m nurse baker guest driver sailor judge painter soldier lawyer singer "
    "writer merchant gardener "
    "cook tailor thief guard uncle/m aunt/f princess/f prince/m waiter/m waitress/f actor/m "
    "actress/f pilot poet "
    "hunter miller fisherman/m widow/f butcher carpenter librarian engineer dentist",
    "animal": "dog cat horse bird cow sheep fox mouse wolf duck goat rabbit bear pig goose lion "
    "donkey owl deer hen crow "
    "tiger turtle squirrel swan otter badger falcon",
    "food": "apple cake egg pear loaf potato onion carrot biscuit pie sandwich tomato orange "
    "sausage plum pancake cherry "
    "mushroom peach lemon turnip dumpling",
    "drink": "soup coffee tea milk juice wine lemonade cider cocoa broth",
    "garment": "coat hat shirt dress scarf shoe boot jacket glove skirt sweater sock cloak apron",
    "tool": "key knife lamp hammer rope spoon candle ladder shovel clock needle axe saw broom "
    "mirror lantern",
    "text": "book letter story newspaper poem map note report diary novel recipe song article "
    "contract",
    "instrument": "guitar piano violin drum flute trumpet cello harp",
    "vehicle": "car boat train bus bicycle truck ship cart wagon tram ferry",
    "furniture": "table chair bed cabinet shelf desk bench sofa wardrobe cupboard",
    "container": "box bag basket suitcase drawer crate chest barrel",
    "vessel": "bottle cup pot jar vase bucket bowl",
    "building": "house school shop church market kitchen garden library station hospital castle "
    "farm theatre museum bank "
    "tower hotel office bakery barn harbour mill",
    "land": "forest hill road field mountain bridge valley island beach meadow cave desert",
    "water": "river lake sea stream pond canal",
    "plant": "tree flower rose bush oak vine tulip fern willow lily",
    "event": "party meeting wedding concert game lesson play dinner race festival trial journey "
    "storm",
    "idea": "plan idea question answer secret problem rule joke promise theory proposal",
}
_FEMALE = (
    "Anna Mara Nell Clara Ruth Ida Lena Rosa Ellen Grace Nora Alice Julia Edith Vera Martha "
    "Helen Iris Flora Stella Hazel "
    "Olive Sylvia Agnes Greta Doris Wanda Freya Ingrid Thea Selma Petra Judith Bella Celia "
    "Delia Elsa Fiona Gwen Hilda "
    "Irma Joyce Karin Lydia Mabel Nadia Opal Pearl Quinta Rhoda Sabine Tessa Una Viola Winifred "
    "Xenia Yvonne Zelda"
)
_MALE = (
    "Tom Ben Peter Karl Hugo Frank Oscar Victor Walter Simon Albert Felix Ralph Henry Oliver "
    "Martin Edgar Leo Arthur Conrad "
    "Dennis Edwin Floyd Gilbert Harold Ivan Jasper Kurt Lionel Morris Nigel Otto Percy Quentin "
    "Roland Stefan Theo Ulrich "
    "Vincent Wilbur Xavier Yorick Alfred Basil Cedric Duncan Emil Fergus Gustav Horace Igor "
    "Julius Lambert Magnus Norbert"
)
_SURNAME_PARTS = (
    "Black White Green Stone Wood Ash Fair Winter",
    "wood field well more man by worth shaw",
)
_TOWN_PARTS = (
    "Al Brook Cold Dun East Fern Glen Har Kings Lin Mill North Oak Red Stan Wey",
    "ford ham ton bridge mouth wick bury dale",
)
_ORGANISATIONS = (
    "Harbour/Bank River/School City/Museum Valley/College Northern/Railway Golden/Bakery "
    "Royal/Theatre Central/Hospital "
    "Island/Press Mountain/Club Union/Hotel Garden/Society Southern/Insurance Silver/Orchestra "
    "Coastal/Shipping "
    "Summit/Institute Lakeside/Clinic Eastern/Times Crown/Brewery Meadow/Trust"
)

# lemma | subject | object | kind | further argument; "!" marks verbs with reflexive objects
_VERBS = """
see | animate | person animal vehicle building plant nature | perceive
find | person | ware | perceive
like | person | person animal edible text event idea plant instrument | feel
buy | person | ware | acquire
eat | animate | food | consume
read | person | text | perceive
watch | animate | person animal event vehicle | perceive
help ! | person | person animal | social
visit | person | person building nature | social
carry | person | movable food drink | move
love | person | person animal food text event plant | feel
follow | animate | person animal vehicle | follow
write | person | text | create
meet | person | person | social
open | person | container text building | change
wash ! | person | garment vehicle vessel animal | change
paint | person | furniture vehicle building | change
drink | animate | drink | consume
wear | person | garment | use
hide ! | person | tool text garment food | move
drive | person | vehicle | use
mend | person | garment tool furniture vehicle instrument | change
break | person | tool instrument vessel furniture | destroy
chase | animate | person animal | follow
clean | person | building furniture vessel vehicle | change
play | person | instrument | use
hear | animate | person animal instrument event | perceive
feed | person | animal | social
lose | person | object | lose
build | person | building furniture | create
bake | person | food | create
cook | person | food | change
admire ! | person | person building plant text instrument nature | feel
remember | person | person event idea text | feel
thank | person | person | social
water | person | plant | change
enjoy | person | event food drink text | feel
cross | animate | nature | traverse
repair | person | vehicle instrument tool building | change
sell | person | ware | dispose
taste | animate | edible | perceive
praise ! | person | person text idea | social
lift | person | container furniture tool | move
describe ! | person | person event building idea | social
steal | person | ware | acquire
greet | person | person | social
blame ! | person | person | social
forget | person | event idea person | feel
trust ! | person | person | feel
understand ! | person | idea text person | feel
hate | person | event food idea animal | feel
train | person | animal | social
ride | person | animal vehicle | use
fill | person | container vessel | change
borrow | person | object furniture vehicle | acquire
explain | person | idea text | social
pour | person | drink | move
sharpen | person | tool | change
invite | person | person | social
protect ! | animate | person animal building plant | social
plan | person | event building | create
attend | person | event | social
reject | person | idea text | social
guard | animate | person building container | social
pick | person | plant food | move
climb | animate | land plant | traverse
leave | animate | building nature | traverse
enter | animate | building | traverse
sew | person | garment | create
fold | person | garment | change
bite | animal | person animal food | harm
lick | animal | person animal | social
brush | person | animal garment | change
hurt ! | animate | person animal | harm
draw | person | person animal plant building | create
discuss | person | idea event text | social
accept | person | idea | social
study | person | text idea plant animal | perceive
lock | person | building container | change
empty | person | container vessel | change
polish | person | furniture instrument tool | change
park | person | vehicle | change
tune | person | instrument | change
plant | person | plant | create
spill | person | drink | destroy
photograph ! | person | person animal building | perceive
rescue | person | person animal | social
warn | person | person | social
ignore | animate | person idea | social
interrupt | person | person event | social
sign | person | text | change
sleep | animate | | rest
laugh | person | | express
smile | person | | express
wait | animate | | rest
dance | person | | act
sing | person | | express
cry | person | | express
rest | animate | | rest
shout | person | | express
whisper | person | | express
growl | animal | | express
howl | animal | | express
vanish | animate vehicle | | appear
arrive | person vehicle | | appear
fall | tool container plant | | happen
begin | event | | happen
end | event | | happen
bloom | plant | | happen
wither | plant | | happen
collapse | building furniture | | happen
stall | vehicle | | happen
rust | tool vehicle | | happen
swim | animate | | act
tremble | animate | | rest
walk | animate | | motion | to into through across towards : place
run | animate | | motion | to into through across towards : place
go | animate | | motion | to : place
hurry | person | | motion | to into : building
return | animate | | motion | to : place
travel | person | | motion | to through : place
swim | animate | | motion | across : water
give | person | object food plant | transfer | to : person
show | person | object plant animal | show | to : person
send | person | text garment food | transfer | to : person
lend | person | object vehicle | transfer | to : person
bring | person | ware | transfer | to : person
hand | person | object food | transfer | to : person
offer | person | edible object | transfer | to : person
tell | person | idea | tell | to : person
put | person | tool text garment food | place | in on under beside : container furniture
leave | person | tool text garment instrument | place | on under beside : container furniture
drop | person | tool text food | place | into : container
keep | person | tool text garment | place | in : container
"""
_THAT = "think know say hope believe notice hear remember"
_INFINITIVE = "want try begin decide learn refuse plan hope forget agree"

_ADJECTIVES = """
old | concrete
big | animal food object furniture vehicle building nature plant
small | animal food object furniture vehicle building nature plant
young | animate plant
new | tool container vessel instrument garment text furniture vehicle building idea
happy | animate
beautiful | person animal garment text instrument vehicle building nature plant
red | garment container vessel vehicle furniture plant
tired | animate
strange | person animal text event idea building
cold | food drink building nature
hot | food drink
hungry | animate
long | text event garment nature
sad | person text
white | animal garment container vessel furniture vehicle building plant
heavy | tool container vessel instrument furniture
kind | person
fresh | food drink plant
black | animal garment container vessel vehicle instrument
empty | container vessel building
tall | person building plant
sweet | food drink
clever | person animal idea
green | garment container vessel vehicle furniture plant
angry | animate
wooden | tool container vessel furniture building instrument
rich | person
brave | animate
broken | tool container vessel instrument furniture vehicle
blue | garment container vessel vehicle furniture plant
famous | person text building
quiet | animate nature building
dirty | garment container vessel vehicle animal
expensive | garment instrument vehicle furniture drink text
ripe | food
proud | person
clean | garment container vessel building
dark | building nature
gentle | animate
loud | person instrument event
dangerous | animal nature tool idea
lazy | animate
delicious | food drink
secret | text idea event
rusty | tool vehicle container vessel
wide | nature
rude | person
deep | water
simple | idea text tool
funny | person text event idea
bitter | drink
honest | person
fast | vehicle animal
warm | food drink garment
steep | land
nervous | animate
boring | text event
stale | food
torn | garment text
brilliant | person idea text event
curious | animate
sour | food drink
sharp | tool
shy | animate
cheerful | person
noisy | event vehicle
woollen | garment
thorny | plant
salty | food
foolish | person idea
lonely | person
withered | plant
splendid | event building garment
grand | building event instrument
slow | vehicle animal
patient | person
narrow | land water
ancient | building text nature
cruel | person
"""
_SYNONYMS = (
    "big/large small/little happy/glad fast/quick clever/smart delicious/tasty "
    "splendid/magnificent "
    "buy/purchase mend/fix hide/conceal find/discover like/enjoy begin/start help/assist "
    "build/construct "
    "clean/tidy carry/haul reject/refuse see/spot angry/furious rude/impolite boring/dull"
)
# classes whose name is a hypernym of all their nouns: a candle is not always a tool
HYPERNYMS = {cls: cls for cls in "person animal garment instrument vehicle plant container".split()}
MANNER = tuple(
    "quickly slowly carefully quietly happily gently proudly suddenly patiently eagerly calmly "
    "secretly bravely "
    "nervously politely clumsily cheerfully angrily".split()
)
OFTEN = tuple("often always usually sometimes rarely still".split())
DEGREE = tuple("very quite so rather too really".split())
LINKS = tuple("then later soon afterwards suddenly finally meanwhile".split())
DAYS = tuple("Monday Friday Sunday Saturday Tuesday Thursday Wednesday".split())
MONTHS = tuple(
    "May June March October April July August September January December February November".split()
)
PARTS_OF_DAY = tuple("morning evening afternoon".split())
# adjectives that are not gradable
NOT_GRADED = frozenset(
    "wooden woollen empty broken withered torn red white black green blue secret ancient splendid "
    "delicious brilliant new".split()
)
# the buildings that fit "in", and those that fit "at"
PREPOSITIONS = {
    "in": frozenset(
        "house school shop church market kitchen garden library hospital castle theatre museum "
        "bank hotel office bakery barn mill tower".split()
    ),
    "at": frozenset(
        "school shop church market library station hospital castle farm theatre museum bank hotel "
        "office bakery harbour mill".split()
    ),
}
PREPOSITIONS["into"] = PREPOSITIONS["through"] = PREPOSITIONS["in"]
# the places of events, and the positions of things in a noun phrase
EVENT_PLACES = {
    "in": "building",
    "at": "building event",
    "near": "building plant vehicle land water",
    "behind": "building vehicle",
}
POSITIONS = {
    "near": "building land water furniture plant vehicle",
    "behind": "building furniture plant vehicle",
    "beside": "building furniture plant",
    "on": "furniture",
    "with": "garment instrument container",
}
SMALL = classes("tool text garment food vessel")  # what can be on a table

GOOD = tuple(
    "wonderful delightful excellent charming brilliant splendid superb pleasant lovely "
    "perfect".split()
)
BAD = tuple(
    "terrible awful dreadful boring horrible dull miserable disappointing unpleasant poor".split()
)


def _named_nouns() -> dict[str, tuple[Noun, ...]]:
    genders = {"f": "Fem", "m": "Masc", "": ""}
    table = {}
    for cls, text in _NOUNS.items():
        parts = [item.partition("/") for item in text.split()]
        table[cls] = tuple(Noun(noun(word), cls, genders[mark]) for word, _, mark in parts)
    return table


def _frames() -> tuple[Frame, ...]:
    frames = []
    for line in _VERBS.strip().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        lemma, subject, object_, kind = cells[:4]
        goal, _, goal_classes = (cells[4] if len(cells) > 4 else "").partition(":")
        frames.append(
            Frame(
                verb(lemma.removesuffix("!").strip()),
                classes(subject),
                classes(object_),
                kind,
                goal.strip(),
                classes(goal_classes),
                lemma.endswith("!"),
            )
        )
    return tuple(frames)


def _adjectives() -> dict[str, frozenset[str]]:
    rows = (line.split("|") for line in _ADJECTIVES.strip().splitlines())
    return {lemma.strip(): classes(fits) for lemma, fits in rows}


def _pairs(text: str) -> dict[str, str]:
    """A map from each word to its partner, in both directions; the first partner wins."""
    table: dict[str, str] = {}
    for pair in text.split():
        first, second = pair.split("/")
        table.setdefault(first, second)
        table.setdefault(second, first)
    return table


NOUNS = _named_nouns()
FRAMES = _frames()
ADJECTIVES = _adjectives()
# of two adjectives, size and age come first; colour, taste, material and state come second
FIRST_OF_TWO = frozenset("big small old new young strange beautiful".split())
SECOND_OF_TWO = frozenset(
    "red white black green blue wooden broken dirty torn woollen rusty sweet sour fresh hungry "
    "tired".split()
)
ADJECTIVE_WORDS = {lemma: adjective(lemma) for lemma in ADJECTIVES}
SYNONYMS = _pairs(_SYNONYMS)
THAT_VERBS = tuple(verb(lemma) for lemma in _THAT.split())
INFINITIVE_VERBS = tuple(verb(lemma) for lemma in _INFINITIVE.split())
FIRST_NAMES = {"Fem": tuple(_FEMALE.split()), "Masc": tuple(_MALE.split())}
SURNAMES = tuple("".join(parts) for parts in product(*(part.split() for part in _SURNAME_PARTS)))
TOWNS = tuple("".join(parts) for parts in product(*(part.split() for part in _TOWN_PARTS)))
ORGANISATIONS = tuple(tuple(item.split("/")) for item in _ORGANISATIONS.split())
