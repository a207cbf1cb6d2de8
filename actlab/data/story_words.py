"""The rules of the story grammar, as data; `actlab.data.story_grammar` says how they are read.

A line that starts a block names a rule and the facts on which its choice depends (`tone = tint` copies a rule).
An indented line is `values of those facts: alternatives`: values are separated by spaces, `*` is any value, `a,b`
is a or b, and every line that fits the facts adds its alternatives. Deeper lines go on where the last one ended.
In an alternative `<rule>` is a choice, `{fact}` repeats a fact (`{Fact}` with a capital), `^` is a new paragraph and
`~` the article a or an. At the end of a line `@fact=value` is set by, and `*n` is the weight of, each alternative.
An alternative without choices also sets the fact with its rule's name (and `a_rule`, which keeps the article).
"""

IMPLIED: dict[tuple[str, str], dict[str, str]] = {
    ("sex", "she"): {"he": "she", "him": "her", "his": "her"},
    ("sex", "he"): {"he": "he", "him": "him", "his": "his"},
}

RULES = """
story
  : <opening> <friends>^<longing> <trip> <trouble> <rescue>^<turn> <ending>

opening
  : <once>, <look> <size> <kind> <named> <name> <dwelt> <cosy> <house> <near> the <mark>.
once
  : Once upon a time *4
  : Once|Long ago *4
  : One year|Last year|Far away|Last week|Not long ago|Far from here
look
  : ~shy|~quiet|~gentle|~timid|~calm|~meek|~tidy|~sleepy|~modest|~pale|~lonely|~mild|~dreamy @temper=shy
  : ~brave|~bold|~lively|~eager|~proud|~busy|~daring|~loud|~strong|~quick|~tough|~noisy|~wild @temper=bold
  : ~kind|~sweet|~nice|~polite|~loving|~helpful|~good|~caring|~tender|~loyal|~giving|~wise|an honest @temper=kind
  : ~merry|~silly|~funny|~jolly|~cheery|~cheeky|~giggly|~happy|~clumsy|~messy|~goofy|~witty|~bubbly @temper=merry
size
  : little|small|young|tall|thin @coat=any *5
  : tiny|round|plump|old|fat @coat=beast *3
  : fluffy|furry|fuzzy|soft|silky|shaggy|brown|gray @coat=fur *2
  : feathery|downy|yellow|spotted|blue @coat=down *2
  : green|slimy|slick|damp|wet @coat=wet *2
  : rich|poor|barefoot|lanky|curly|freckled|blond @coat=skin *3
kind coat
  any,skin: girl @body=child @brood=girl *13
  any,skin: boy @body=child @brood=boy *13
  any,beast,fur: bunny|kitten|puppy|mouse|fox|bear|hamster|lion|cat|pig @body=furry @brood=furry
  fur: lamb|badger|koala|monkey|dog @body=furry @brood=furry
  any,beast,down: duck|owl|robin|sparrow|parrot|goose @body=bird @brood=bird
  down: chick|swan|wren|pigeon|dove @body=bird @brood=bird
  any,beast,wet: frog|turtle|newt|crab @body=pond @brood=pond
  wet: toad|lizard|gecko|snail @body=pond @brood=pond
named
  : named|called
name brood
  girl: Lily|Mia|Anna|Emma|Sue|Zoe|Ella|Lucy|Ruby|Nora|Clara|Ivy|Rosa|Molly|Jane|Kate|Alice|Grace|Hazel|Nina|Tina
    |Maya|Sara|Amy|Eva|Beth|Daisy|Ada|Wendy|Olga|Pam|Heidi|Ann|Ida|Meg|Lea|Joy|June|Fay|Dora @sex=she
  boy: Tom|Tim|Ben|Jack|Leo|Finn|Noah|Adam|Luke|Carl|Hank|Oscar|Pete|Simon|Hugo|Ned|Mark|Paul|Fred|Roy|Jim|Owen
    |Ryan|Vic|Walt|Evan|Dan|Theo|Ivan|Kai|Rob|Bill|Gil|Ray|Ken|Lou|Cal|Abe|Ted|Joe @sex=he
  furry: Fluffy|Patches|Snowy|Velvet|Clover|Cindy|Poppy|Honey|Willow|Maple|Misty|Tulip @sex=she
  furry: Biscuit|Rusty|Bruno|Scamp|Thumper|Fuzz|Nibbles|Smudge|Tuff|Shadow|Rascal|Gus @sex=he
  bird: Chirpy|Feather|Skye|Melody|Plume|Goldie|Jenny|Pearl|Wisp|Lark @sex=she
  bird: Peck|Swoop|Flap|Quill|Tweet|Beaky|Cap|Duke|Zip|Hoot @sex=he
  pond: Puddle|Ripple|Lotus|Dewy|Coral|Marina|Brook|Minty|Opal|Pia @sex=she
  pond: Splash|Hopper|Bubbles|Paddle|Sprout|Murky|Croaky|Shelly|Drop|Slick @sex=he
dwelt body
  *: lived in *3
  *: had|owned|kept|built|found
  child: rented|shared
  furry,pond: dug|hid in
  bird: sang in|slept in
cosy body
  *: ~cozy|~tidy|~warm|~neat|~sunny|~pretty|~dusty|~snug|~plain|~lovely|~odd|~dim|~nice|~old|~new|~big|~dry|~safe
  *: ~cool|~fine|~bare|~clean|~low
  child: ~red|~brick|~stone|~wooden|~yellow|~white|~blue|~pink
  furry: ~sandy|~leafy|~mossy|~deep
  bird: ~twiggy|~leafy|~high|~airy
  pond: ~muddy|~mossy|~damp|~shady
house body
  child: house|cottage|cabin|hut|flat|room|home|hall
  furry: den|burrow|shed|hutch|kennel|basket|hole|lair|hollow
  bird: nest|coop|loft|cage|roost|birdhouse
  pond: cave|mud hut|tunnel|puddle|pit|hole|ditch
near
  : near|by|beside|facing|close to|far from|next to
mark body
  child: school|market|bakery|bank|station|town hall|library|church|inn|museum @place=town *4
  child,furry,bird: barn|hayfield|orchard|dairy|corn|stable|wheat|farm road @place=farm *3
  child,pond,bird: harbor|beach|pier|boats|dunes|bay|sea|shore @place=sea *3
  furry,bird: pines|oaks|ferns|birches|berry patch|woods|maples|forest @place=woods *4
  furry,child: hill|peak|tower|mountain|slope|cliff|ridge|mine @place=hill *3
  pond,furry: river|lake|mill|dam|reeds|stream @place=river *4
  pond: lilies|marsh|canal|swamp|creek @place=river *5

friends
  : {He} <liked> <taste> <food>, <sky> <hours> and <friend>, <sort> <breed>.
  : With <friend>, <sort> <breed>, {he} <shared> <taste> <food>. *3
  : Like <friend>, <sort> <breed>, {he} <liked> <taste> <food> and <noise> <sound>.
  : {His} joys were <friend>, <sort> <breed>, <sky> <hours> and <taste> <food>.
liked
  : liked|loved|enjoyed|adored|praised
shared
  : shared|had|traded|liked|loved
friend place
  *: Max|Pip|Sam|Bo|Coco|Teddy|Pepper|Ziggy|Mango|Peanut|Muffin|Button|Lucky|Buddy|Toby|Dot|Jojo|Kiki|Al|Bea|Gigi
  *: Milo|Otis|Polly|Rex|Sandy|Tilly|Ugo|Winnie|Chuck|Dolly|Frank|Bingo|Domino|Oreo|Chip|Fifi|Lulu|Nan|Pat|Wes|Zed
  town: Duchess|Taxi|Sir Bob|Jazz|Penny|Dandy *2
  farm: Barley|Turnip|Rye|Hay|Bessie|Oats *2
  woods: Acorn|Fern|Birch|Cedar|Hick|Twig *2
  sea: Captain|Anchor|Pebble|Skip|Sailor|Tide *2
  river: Reed|Drip|Lilypad|Bob|Marsh|Minnow *2
  hill: Rocky|Breeze|Everest|Summit|Heather|Echo *2
sort place
  *: ~plump|~noisy|~sleepy|~clumsy|~clever|~tame|~cuddly|~chubby|~lazy|~fast|~stubborn|~wiggly|~grumpy|~loyal
  *: ~wise|~messy|~fussy|~gentle|~nosy|~spoiled|~hungry|~shaky|~big|~slow|~sly|~old|~odd|~funny|~neat
  town: ~fancy|~vain|~smelly|~stray|~rich *2
  farm: ~prize|~dusty|~well-fed|~muddy|~tired *2
  woods: ~wild|~hidden|~mossy|~scruffy|~leafy *2
  sea: ~salty|~wet|~sandy|~seasick|~tanned *2
  river: ~soggy|~slimy|~drifting|~wet|~damp *2
  hill: ~sturdy|~woolly|~hardy|~rugged|~cold *2
breed place
  town: rat|tabby cat|pigeon|canary|poodle|goldfish|terrier|moth|bulldog|ferret
  farm: piglet|calf|foal|hen|goat|donkey|pup|rooster|ox|goose
  woods: hedgehog|fawn|mole|jay|chipmunk|skunk|beetle|weasel|elk|finch
  sea: crab|seal|puffin|pelican|penguin|lobster|gull|walrus|squid|clam
  river: otter|beaver|duckling|swan|vole|heron|eel|snail|trout|toad
  hill: pony|hare|marmot|ram|hawk|llama|yak|alpaca|eagle|fox
taste
  : sweet|ripe|juicy|fresh|wild|sour|tangy|cold|big @flavor=fruit
  : warm|buttery|crisp|sugary|burnt|fluffy|spicy|hot|soft @flavor=baked
  : salty|crunchy|roast|tasty|dry|bitter|raw|plain|hard @flavor=nuts
food flavor
  fruit: plums|pears|apples|cherries|peaches|grapes|berries|melons|figs|lemons|mangos|oranges|dates|limes|kiwis
  baked: buns|rolls|pies|cakes|waffles|pancakes|muffins|cookies|tarts|crackers|scones|wafers|donuts|loaves|pizzas
  nuts: walnuts|seeds|carrots|peanuts|acorns|almonds|beans|beets|radishes|nuts|turnips|peas|olives|pecans|chips
noise
  : merry|silly|lively|happy|slow|jazzy|loud|soft|odd @music=song
  : long|true|funny|scary|spooky|clever|short|old|good @music=tale
sound music
  song: songs|tunes|dances|hums|marches|hymns|waltzes|jingles|chants|duets
  tale: stories|jokes|riddles|poems|rhymes|letters|tales|legends|secrets|books
sky
  : rainy|windy|sunny|snowy|foggy|cloudy|lazy|stormy|rosy|long @light=day
  : starry|moonlit|dark|quiet|summer|winter|chilly|calm|cool|late @light=dusk
hours light
  day: mornings|days|weekends|Sundays|walks|dawns|noons|hikes
  dusk: nights|evenings|hours|strolls|talks|parties|swims|baths

longing temper
  *: {He} <longed> to <wish>. *4
  *: "I <deeply> want to <wish>," {he} <told> {friend}.
deeply temper
  *: really|always|still|also
  shy: secretly|quietly|only|shyly|merely
  bold: badly|simply|surely|firmly|just|often
  kind: truly|warmly|dearly|humbly|fondly
  merry: madly|wildly|gladly|deeply|greatly
longed temper
  *: wanted|hoped|longed|wished|planned|yearned|meant
  shy: ached|prayed|needed
  bold: vowed|swore|fought|tried
  kind: asked|begged|aimed
  merry: itched|asked|chose
told temper
  shy: murmured to|whispered to|mumbled to
  bold: shouted to|boasted to|bragged to
  kind: said to|told|wrote to
  merry: laughed to|sang to|giggled to
wish body
  child: own <heft> <make> <toy> @wish=toy *5
  furry,bird,pond: own <heft> <make> <toy> @wish=toy *3
  child: learn to <skill> <how> @wish=skill *4
  furry,bird,pond: learn to <skill> <how> @wish=skill *5
  *: see <vision> <sight> @wish=sight *3
heft
  : ~small|~big|~new|~fine|~lovely|~cheap|~real|~fancy|~tiny|~huge|~plain|~pretty|~cute|~good|~nice|~long|~tall|~odd
make
  : wooden|carved|red|oak|bamboo|pine|brown @stuff=wood
  : silver|brass|golden|tin|copper|steel|shiny @stuff=metal
  : knitted|velvet|woolly|silk|cotton|soft|lace @stuff=cloth
  : paper|painted|striped|pink|white|green|blue @stuff=paper
toy stuff
  wood: boat|drum|flute|sled|top|wagon|scooter|puppet|violin|yo-yo|pony|toy train|guitar|desk|harp|cart
  metal: bell|whistle|trumpet|lantern|crown|compass|teapot|gong|robot|toy car|watch|cup|fork|ring|key|bike
  cloth: doll|teddy bear|pillow|quilt|puppet|blanket|bunny|hammock|bag|toy lion|hat|tent|cape|scarf|bow|rug
  paper: kite|fan|lantern|mask|balloon|umbrella|parasol|book|globe|puzzle|castle|plane|dragon|diary|flag|map
skill body place
  child *: swim|skate|box|jog|ride|run|jump @art=move
  furry *: jump|dig|swim|run|skate|hunt|hide|sneak @art=move
  bird *: fly|dive|glide|swoop|hover|land|soar|hunt @art=move
  pond *: leap|dive|float|hop|paddle|crawl|hide @art=move
  child,pond sea: surf|row|sail|fish @art=move
  child,furry hill: ski|climb|hike|sled @art=move
  child,furry farm: plow|milk cows|race @art=move
  furry,pond river: row|wade|fish @art=move
  * *: sing|whistle|hum|yodel|talk @art=voice
  bird *: chirp|coo|hoot|tweet @art=voice
  pond *: croak @art=voice
  child *: paint|draw|knit|cook|sew|write|bake|juggle|read @art=craft
  furry,pond *: paint|bake|juggle|weave|count @art=craft
  * *: dance|act @art=craft
how art
  move: fast|far|smoothly|safely|alone|boldly|well|backward|calmly|at night|in style|all day
  voice: loudly|softly|sweetly|clearly|in tune|alone|well|on stage|nicely|proudly|at dawn|all day
  craft: neatly|nicely|well|alone|quickly|boldly|with care|in style|calmly|on stage|all day|with love
vision
  : ~bright|~glowing|~dazzling|~perfect|~magic|~red|~golden|~lovely|~rosy|~big @view=sky
  : ~white|~giant|~wild|~rare|~gentle|~fierce|~real|~huge|~baby|~dancing|~tame|~fat @view=beast
  : ~hidden|~distant|~famous|~ancient|~fine|~secret|~haunted|~royal|~ruined|~grand|~new @view=scene
sight view place
  sky *: rainbow|full moon|sunrise|sunset|comet|star|cloud|dawn
  sky town: parade|firework|balloon
  scene *: castle|palace|garden|temple|tower|maze|cave|bridge|city|arch
  scene sea: island|wreck|harbor
  scene woods,hill: valley|lake|glacier
  beast town: elephant|peacock|monkey|tiger|camel|zebra|panda|lion
  beast farm: bull|stork|ostrich|peacock|stallion|bison|hawk|emu
  beast woods: wolf|stag|eagle|moose|lynx|bat|cougar|elk
  beast sea: whale|dolphin|octopus|walrus|shark|seal|ray|orca
  beast river: salmon|crane|flamingo|catfish|hippo|pike|eel|ibis
  beast hill: eagle|antelope|leopard|condor|yak|wolf|bear|ibex

trip
  : One <weather> <time>, <journey> to the <spotlook> <spot>.
journey
  : they <took> <worn> <gear> *2
  : after <number> {food}, they <went>
  : with <worn> <gear>, they <went> *2
weather place
  *: sunny|bright|warm|clear|mild|fine|hot @air=fair *3
  *: rainy|cloudy|gray|damp|wet|stormy|bleak @air=wet *3
  *: chilly|frosty|snowy|icy|cold|crisp|nippy @air=cold *3
  town: smoky|noisy @air=wet *5
  farm: golden|dusty|dry @air=fair *5
  woods: misty|foggy|murky @air=wet *5
  sea,river: breezy|hazy|calm @air=fair *5
  sea: misty|foggy @air=wet *5
  hill: freezing|bitter|windy @air=cold *5
time
  : morning|evening|day|noon|dawn|weekend|Monday|Tuesday|Thursday|Friday|Sunday|spring day|fall day
took
  : took|carried|brought|lugged|hauled|dragged
number
  : two|three|four|five|six|seven|eight|nine|ten|many|some|twenty
worn air
  *: ~old|~new|~heavy|~dirty|~dusty|~big|~broken|~cheap|~red|~blue|~yellow|~green|~purple|~gray|~small|~odd|~fine
  *: ~trusty|~worn|~pink|~black|~white|~good|~huge
  fair: ~light|~bright|~thin|~tidy *2
  wet: ~damp|~wet|~soaked|~muddy *2
  cold: ~icy|~cold|~stiff|~snowy *2
gear air
  *: map|rope|jar|bucket|basket|book|lamp|shovel|drum|camera|cup|chair|box|bag|flag|bell
  fair: sun hat|kite|bottle|rug|net|paint set|ball|fan *2
  wet: raincoat|umbrella|towel|tarp|rain hat|mop|sponge|tent *2
  cold: blanket|cocoa pot|scarf|sweater|sled|flask|quilt|coat *2
went body
  child: walked|ran|skipped|hurried|marched|strolled|raced|rode|hiked|biked|came|drove
  furry: trotted|scampered|hurried|crept|bounded|padded|raced|ran|dashed|sneaked
  bird: flew|fluttered|hopped|soared|flapped|strutted|sailed|hurried
  pond: hopped|splashed|crawled|wriggled|bounced|swam|hurried|slid
spotlook place
  *: old|big|new|little|famous|pretty|empty|crowded|nearest|tiny|odd|nice|wide|far|next|huge|quiet|good|low|dark
  town: noisy|modern|fancy|public *2
  farm: muddy|dusty|fenced|sunny *2
  woods: mossy|shady|hidden|haunted *2
  sea: sandy|salty|windy|rocky *2
  river: marshy|flooded|muddy|grassy *2
  hill: steep|snowy|rocky|windy *2
spot place
  town: park|toy shop|fountain|school yard|zoo|bus stop|candy store|bridge|circus|theater|pool|alley|fair
  farm: paddock|coop|pumpkin patch|pigpen|windmill|garden|tool shed|well|silo|meadow|pond|field
  woods: clearing|glade|camp|creek|log cabin|cave|grove|footbridge|trail|gorge|swamp|path
  sea: jetty|tide pool|lagoon|cove|fish market|sandbar|cape|wharf|reef|dock|cave|island
  river: dock|ferry|ford|island|rapids|bridge|beach|weir|falls|boathouse|bend|pool
  hill: summit|cable car|castle|spring|lookout|sheep pen|ski run|cave|pass|gorge|camp|inn

trouble wish
  toy: <where>, they <saw> the {toy}, but <toysnag>.
  skill: <where>, {name} tried to {skill}, but <skillsnag>.
  sight: <where>, they <sought> the {sight}, but <sightsnag>.
saw
  : saw|found|spotted|noticed|admired
sought
  : sought|looked for|searched for|went to see|tried to find
where
  : Near <numeral> <mood> <beasts> *3
  : Among <numeral> <mood> <beasts> *3
  : Behind <shabby> <object> *3
  : Between <shabby> <object> and <numeral> <mood> <beasts> *2
  : Past <shabby> <object> and <numeral> <mood> <beasts> *2
numeral = number
mood air
  *: noisy|sleepy|hungry|fat|shy|tame|angry|quiet|old|young|lost|tired|curious|calm|grumpy|playful|big|small|sad|mad
  fair: happy|lazy|thirsty|hot|dusty|sunburnt *2
  wet: wet|soggy|muddy|dripping|gloomy|damp *2
  cold: shivering|frozen|chilly|cold|hardy|icy *2
beasts place
  town: cats|pigeons|poodles|rats|joggers|tourists|clowns|babies|painters|boys|parrots|nurses|dogs|mice|cooks|kids
  farm: cows|pigs|hens|sheep|goats|turkeys|donkeys|horses|geese|calves|kittens|roosters|mules|bees|dogs|lambs
  woods: deer|squirrels|rabbits|foxes|bears|crows|bats|wolves|elves|campers|beetles|badgers|moles|owls|elks|ants
  sea: crabs|seals|seagulls|sailors|penguins|divers|pelicans|turtles|lobsters|pirates|surfers|eels|clams|gulls|rays
  river: ducks|frogs|swans|beavers|otters|snails|herons|toads|newts|mice|anglers|geese|gnats|rats|voles|moths
  hill: goats|sheep|hikers|eagles|yaks|marmots|ponies|ravens|skiers|llamas|hares|dwarfs|rams|hawks|monks|trolls
shabby place
  *: ~old|~big|~small|~huge|~odd|~gray|~brown|~low|~wide|~dusty|~wet|~pale|~dark|~strange|~plain|~giant|~grand
  *: ~black|~white|~red|~tiny|~ugly|~lovely|~lone|~fine
  town: ~shiny|~busy|~rusty|~new *2
  farm: ~muddy|~rusty|~wooden|~dirty *2
  woods: ~mossy|~leafy|~shady|~hollow *2
  sea: ~salty|~sandy|~faded|~rotten *2
  river: ~muddy|~mossy|~soggy|~slimy *2
  hill: ~snowy|~rocky|~frozen|~stony *2
object place
  town: billboard|bus|clock|market stall|taxi|statue|mailbox|bench|truck|lamp|kiosk|van|gate|cab
  farm: tractor|haystack|scarecrow|hedge|plow|fence|trough|wagon|gate|beehive|cart|milk can|bush|post
  woods: oak|thicket|boulder|beech|stump|log|cobweb|pine|bramble|sign|tent|anthill|fir|bush
  sea: dune|wreck|cliff|rowboat|anchor|sail|buoy|crate|rock|lighthouse|barrel|net|ship|raft
  river: dam|willow|water wheel|raft|canoe|log|boulder|ditch|bridge|barge|lock|fish trap|bush|boat
  hill: boulder|ridge|stone wall|sign|cairn|shrine|snowman|hut|flagpole|pine|ski lift|ruin|rock|tent
toysnag
  : it was stuck on <high> <perch> @problem=high
  : it cost <amount> <money> <coins> @problem=cost
  : it looked <badly> <broken> @problem=broken
  : it was held by <mean> <owner> @problem=owner
amount = number
high
  : ~tall|~steep|~slick|~high|~shaky|~smooth|~thorny|~narrow|~wet|~big|~huge|~thin|~cold|~bare|~mossy|~rough
perch place
  town: roof|lamp post|chimney|balcony|statue|bus|wall|tower
  farm: haystack|barn|silo|scarecrow|fence|ladder|tree|roof
  woods: branch|pine|oak|rosebush|beehive|cliff|twig|tree
  sea: mast|rock|flagpole|buoy|cliff|tower|reef|ship
  river: log|willow|bridge|boulder|mill|rock|raft|dam
  hill: ledge|cliff|boulder|wall|ski lift|peak|rock|pine
money
  : big|small|rare|good|fine|fresh|white|brown|nice|pretty|perfect|huge|round|whole
coins place
  town: coins|stamps|tokens|pearls|tickets|pennies
  farm: eggs|pumpkins|hams|hens|cheeses|onions
  woods: acorns|mushrooms|pine cones|walnuts|feathers|nuts
  sea: shells|pearls|coins|oysters|starfish|clams
  river: pebbles|trout|lily pads|coins|eggs|eels
  hill: feathers|crystals|hides|gems|cheeses|stones
badly
  : badly|a bit|quite|rather|fully|all|partly|so
broken stuff
  wood: cracked|split|chipped|scratched|warped|rotten|broken|burnt
  metal: bent|rusty|dented|twisted|dull|jammed|broken|sooty
  cloth: torn|ripped|stained|dirty|faded|frayed|wet|moldy
  paper: torn|crumpled|soggy|creased|faded|smudged|wet|ripped
mean
  : ~mean|~grumpy|~greedy|~bossy|~selfish|~rude|~cranky|~stingy|~sly|~cruel|~jealous|~nasty|~bad|~fat|~tough|~ugly
owner place
  town: rat|banker|alley cat|crow|bulldog|landlord|thief|guard
  farm: rooster|turkey|billy goat|weasel|magpie|goose|bull|hog
  woods: troll|raven|fox|wolf|boar|witch|bear|ogre
  sea: pirate|seagull|eel|shark|admiral|crab|seal|squid
  river: pike|toad|raccoon|muskrat|ferryman|snake|rat|troll
  hill: giant|wizard|vulture|ogre|dwarf|dragon|hawk|ram
skillsnag
  : fell into <nasty> <mess> @problem=fall
  : felt <too> <afraid> @problem=fear
  : some <rude> <mockers> laughed @problem=laugh
  : grew <tired> after <amount> tries @problem=hard
too
  : far too|a bit|very|rather|so|too|quite|just
nasty
  : ~cold|~muddy|~smelly|~sticky|~prickly|~deep|~nasty|~messy|~dirty|~wet|~hidden|~big|~dark|~huge|~slimy|~foul
mess place
  town: puddle|trash can|flower bed|ditch|hole|drain|tub|pond
  farm: haystack|trough|mud pit|ditch|pigsty|hole|bush|pond
  woods: bush|hole|swamp|leaf pile|thicket|ditch|pit|bog
  sea: tide pool|net|seaweed pile|wave|barrel|hole|puddle|pit
  river: reed bed|pool|mud bank|ditch|hole|bog|puddle|trap
  hill: snowdrift|ravine|thistle|gully|crater|pit|bush|cave
afraid temper
  *: nervous|scared|worried|tense|weak|sick
  shy: shaky|timid|lonely|small|faint|nervy
  bold: angry|upset|excited|proud|hot|rash
  kind: anxious|sorry|guilty|sad|soft|torn
  merry: ticklish|giggly|dizzy|wobbly|silly|restless
tired temper
  *: tired|weary|sore|dizzy|weak
  shy: tearful|ashamed|pale|silent|sad|quiet
  bold: furious|grumpy|hoarse|mad|rash|angry
  kind: sad|gloomy|worried|doubtful|unsure|sorry
  merry: bored|sleepy|cross|hungry|fidgety|silly
rude
  : rude|mean|older|noisy|snooty|bossy|naughty|unkind|proud|cruel|jealous|bored|big|loud|bad|sly
mockers place
  town: pigeons|children|alley cats|rats|clowns|dogs|girls|boys
  farm: geese|hens|pigs|turkeys|calves|mules|goats|ducks
  woods: crows|weasels|squirrels|jays|elves|bats|foxes|owls
  sea: gulls|crabs|sailors|seals|eels|pirates|clams|divers
  river: ducks|frogs|beavers|toads|swans|newts|rats|geese
  hill: goats|marmots|hikers|ravens|trolls|skiers|rams|elves
sightsnag
  : it hid in <thick> <fog> @problem=fog
  : they took <amount> wrong turns @problem=lost
  : faced <stuck> <barrier> @problem=block
  : slept <amount> <nights> too long @problem=late
thick
  : thick|heavy|dark|gloomy|endless|swirling|dense|cold|sudden|gray|deep|white|pale|wet
fog air
  fair: dust|smoke|haze|mist|steam|shade
  wet: rain|fog|clouds|mist|drizzle|gloom
  cold: snow|fog|sleet|frost|ice|hail
stuck
  : ~huge|~heavy|~wide|~strong|~muddy|~tall|~dusty|~solid|~big|~cold|~wet|~old|~thick|~rough|~dark|~gray
barrier place
  town: gate|truck|wall|fence|van|door|bus|hedge
  farm: fence|hay cart|bull|gate|plow|wagon|wall|hedge
  woods: tree trunk|spider web|bramble|log|root|bear|gate|bush
  sea: cliff|crate|rowboat|rock|chain|net|wall|shark
  river: log|raft|dam|bridge|gate|boulder|hedge|wall
  hill: rock|landslide|gate|snowbank|wall|boulder|cliff|bear
nights
  : hours|minutes

rescue
  : "<oh>!" <cried> {name}. Then <savior>.
  : Soon <savior>. *3
  : Then <savior>. *3
  : By luck, <savior>.
oh temper
  *: Oh no|Help|Not again
  shy: Oh dear|Oh my|Alas|Gosh|Dear me
  bold: Bother|Drat|Ugh|Darn|Rats
  kind: What a pity|Poor us|How sad|My, my|Mercy
  merry: Oops|Yikes|Uh-oh|Oh well|Whoops
cried temper
  shy: whispered|sniffed|sighed|mumbled|sobbed|breathed
  bold: shouted|cried|growled|yelled|barked|roared
  kind: said|sighed|cried|wept|groaned|called
  merry: cried|moaned|squeaked|whined|gasped|hooted
savior
  : <helplook> <helper> in <tone> <garb> <kindly> <aid>
helplook
  : ~strong|~big|~sturdy|~burly|~mighty|~tall|~stout|~tough|~broad|~large|~huge|~fit|~fat|~hardy @help=strong
  : ~wise|~patient|~old|~learned|~gray|~clever|~smart|~caring|~polite|~calm|~nice|~gentle|~quiet @help=wise
  : ~quick|~nimble|~young|~swift|~spry|~lively|~speedy|~agile|~skinny|~fast|~small|~lean|~busy @help=quick
helper place help
  town strong: builder|fireman|sheriff|smith|baker|butcher|plumber|boxer|porter
  town wise: teacher|doctor|judge|granny|banker|nun|tailor|vet|poet
  town quick: mailman|acrobat|waiter|newsboy|dancer|cyclist|jockey|cat|page
  farm strong: farmer|ox|horse|farmhand|mule|bull|smith|sow|miller
  farm wise: beekeeper|cow|grandpa|shepherd|hen|vet|gardener|owl|cook
  farm quick: cat|milkmaid|colt|swallow|sheepdog|cowboy|rabbit|mouse|boy
  woods strong: woodcutter|bear|moose|ranger|bison|boar|giant|elk|troll
  woods wise: owl|hermit|fairy|badger|tortoise|nurse|wizard|witch|monk
  woods quick: deer|squirrel|elf|lynx|hunter|fox|scout|hare|imp
  sea strong: sailor|walrus|fisherman|diver|whale|pirate|rower|orca|guard
  sea wise: captain|turtle|mermaid|octopus|painter|cook|teacher|crab|seal
  sea quick: dolphin|swimmer|surfer|gull|cabin boy|eel|tern|crab|runner
  river strong: miller|boatman|hippo|lumberjack|bear|beaver|mule|pike|ox
  river wise: heron|catfish|angler|turtle|gardener|monk|toad|poet|swan
  river quick: otter|kingfisher|swallow|rower|sprite|frog|trout|mink|elf
  hill strong: yak|climber|miner|giant|ram|bear|troll|ox|smith
  hill wise: monk|owl|wizard|shepherd|gnome|nun|poet|hermit|llama
  hill quick: falcon|goat|skier|hiker|hare|eagle|runner|elf|scout
tone
  : ~red|~blue|~green|~yellow|~purple|~orange|~pink|~white|~golden|~silver|~brown|~gray|~black|~striped|~spotted
    |~checkered|~torn|~new|~bright|~warm|~silk|~wool|~long|~big|~fine|~dirty
garb place
  *: hat|scarf|coat|cape|vest|sweater|hood|shawl|robe|cap|kerchief|tie|shirt|belt
  town: suit|bow tie|uniform|top hat *2
  farm: apron|straw hat|smock|bonnet *2
  woods: cloak|tunic|fur hat|mask *2
  sea: raincoat|swimsuit|wig|bandana *2
  river: raincoat|poncho|smock|sun hat *2
  hill: parka|kilt|wool cap|fur coat *2
kindly help
  *: kindly|gladly|sweetly|truly|simply
  strong: calmly|firmly|proudly|boldly|easily|bravely|silently
  wise: gently|slowly|patiently|quietly|warmly|wisely|softly
  quick: eagerly|swiftly|happily|cleverly|promptly|quickly|neatly
aid problem help
  * *: helped|saved the day|gave advice|made a plan|took charge|offered help
  high strong: pulled it down|shook it loose|lifted {him} up
  high wise: found a ladder|lent {him} a pole|threw a rope
  high quick: climbed up|jumped for it|leaped up to it
  cost strong: gave {him} the {coins}|offered {him} a job|paid half
  cost wise: taught {him} to save|lent {him} some {coins}|taught {him} to trade
  cost quick: fetched the {coins}|got a lower price|sold the {food}
  broken strong: brought tools|pressed it flat|mended it
  broken wise: showed {him} how to mend it|mixed glue|had a spare part
  broken quick: fetched glue|patched it up|ran for new parts
  owner strong: faced the {owner}|fought the {owner}|paid the {owner}
  owner wise: begged the {owner}|fed the {owner}|calmed the {owner}
  owner quick: tricked the {owner}|tickled the {owner}|raced the {owner}
  fall strong: pulled {him} out|lifted {him} up|carried {him} off
  fall wise: dried {him} off|cheered {him} up|told {him} to rest
  fall quick: threw {him} a rope|fetched a towel|grabbed {him}
  fear strong: stood by {him}|promised to catch {him}|stayed close
  fear wise: told {him} to breathe|sang to {him}|told {him} a story
  fear quick: went first|played with {him}|made {him} laugh
  laugh strong: chased the {mockers}|stopped the {mockers}|roared at the {mockers}
  laugh wise: scolded the {mockers}|praised {him}|told {him} to be proud
  laugh quick: clapped for {him}|cheered for {him}|joined in
  hard strong: made {him} rest|urged {him} on|held {him} up
  hard wise: taught {him}|explained each step|drew each step
  hard quick: showed {him} how|brought {him} {food}|joined in
  fog strong: led them uphill|built a shelter|carried them on
  fog wise: lit a lantern|told them to wait|lent them a lamp
  fog quick: ran ahead|led them on|found a way out
  lost strong: carried them back|cleared a path|led them on
  lost wise: drew them a map|showed the way|pointed north
  lost quick: found the trail|ran ahead|led them back
  block strong: pushed the {barrier} away|moved the {barrier}|lifted them over
  block wise: knew another way|found a side path|showed them a tunnel
  block quick: helped them over|dug a tunnel|led them around
  late strong: kept watch|built a fire|shook them awake
  late wise: made them tea|taught them to wait|lent them a clock
  late quick: ran to look|kept watch|rang a bell

turn
  : After <pieces> <steady> <weeks>, <result>. *2
  : In <pieces> <steady> <weeks>, <result>.
pieces = number
weeks
  : hours|days|weeks|minutes|nights|months|tries|years|trips|walks
steady temper
  *: busy|hard|long|tiring|good @effort=much
  *: idle|wasted|dull|bad|short @effort=some
  shy: patient|careful|quiet|silent|calm|slow @effort=much *2
  shy: nervous|clumsy|timid|fearful|dreamy @effort=some *2
  bold: brave|daring|tough|heroic|bold|wild @effort=much *2
  bold: hasty|reckless|noisy|stubborn|rash @effort=some *2
  kind: honest|faithful|earnest|humble|loving|warm @effort=much *2
  kind: tense|uneven|doubtful|gentle|sad @effort=some *2
  merry: joyful|cheerful|lively|playful|happy|jolly @effort=much *2
  merry: lazy|sloppy|silly|careless|messy @effort=some *2
result wish effort
  toy *: {he} took the {toy} home|{he} won the {toy}|{he} could keep the {toy} @granted=yes *3
  toy much: {he} earned the {toy}|{he} held the {toy}|{he} got the {toy} @granted=yes *6
  toy *: the {toy} got lost|a thief had the {toy}|the {toy} was gone @granted=no *2
  toy some: the {toy} fell apart|{he} lost the {toy}|the {toy} was sold @granted=no *5
  skill *: {he} could {skill} {how}|{he} learned to {skill}|{he} began to {skill} {how} @granted=yes *3
  skill much: all saw {him} {skill} {how}|{name} could {skill} at last|{he} taught {friend} to {skill} @granted=yes *6
  skill *: {he} still could not {skill}|{he} failed to {skill} {how}|nobody let {him} {skill} @granted=no *2
  skill some: {he} gave up|{he} refused to {skill}|{name} forgot how to {skill} @granted=no *5
  sight *: they saw the {sight}|the {sight} appeared|there was the {sight} @granted=yes *3
  sight much: {he} gazed at the {sight}|they reached the {sight}|{friend} showed {him} the {sight} @granted=yes *6
  sight *: there was no {sight}|they missed the {sight}|{he} saw no {sight} @granted=no *2
  sight some: they gave up|they never saw the {sight}|they lost hope @granted=no *5

ending granted
  yes: {Name} <grinned>, felt <proud> and shared <feast> with {friend}. @happy=yes *8
  yes: "<moral>," said {his} <kin>, and gave {him} <feast>. @happy=yes *6
  yes: But {friend} moved away, so {he} <wept> <sadly> near <walk>. @happy=no *2
  no: {Name} <wept>, felt <gloomy> and went home past <walk>. @happy=no *8
  no: But {friend} <hugged> {him}, and they shared <feast>. @happy=yes *3
  no: "<moral>," said {his} <kin>, and gave {him} <feast>. @happy=yes *3
grinned temper
  *: smiled|grinned|laughed|danced|beamed|jumped|sang
  shy: blushed|hummed|nodded|sighed|bowed
  bold: shouted|cheered|whooped|strutted|yelled
  kind: waved|winked|nodded|hummed|clapped
  merry: twirled|giggled|bounced|wiggled|clapped
proud wish
  *: happy|glad|grateful|joyful|merry|good|great|warm|free|fine
  toy: lucky|rich|pleased|spoiled *2
  skill: proud|strong|clever|brave *2
  sight: amazed|thrilled|excited|awed *2
gloomy
  : sad|lonely|gloomy|hurt|blue|sorry|cross|tired|unhappy|bad|empty|low|cold|bitter|upset|small
wept temper
  *: sighed|cried|wept|sobbed|sniffled|groaned|moped
  shy: hid|whimpered|sniffed|shook|trembled
  bold: stamped|howled|growled|sulked|frowned
  kind: frowned|nodded|wailed|wilted|sniffed
  merry: pouted|sulked|whined|moaned|slumped
sadly temper
  shy: softly|silently|alone|quietly|meekly
  bold: loudly|bitterly|madly|hard|wildly
  kind: sadly|deeply|gently|humbly|kindly
  merry: glumly|noisily|oddly|weakly|a lot
hugged
  : hugged|comforted|tickled|kissed|thanked|praised|patted|helped|fed|nudged
feast
  : <helping> {food}, <count> <hue> <trinkets> and <shade> <gift>
helping = number
count = number
hue
  : red|blue|green|yellow|purple|orange|pink|white|golden|silver|brown|gray|black|striped|spotted|glass|paper
    |tiny|shiny|big|soft|pretty|round|new|old|nice|fine|odd
trinkets wish
  *: balloons|flags|candles|ribbons|stickers|marbles|beads|crayons|buttons|stamps|feathers|pebbles|tulips|roses
  *: shells|stars|cups|pencils|pillows|bows|blocks|bells|boxes|lanterns|eggs|hats|pins|dolls|cards|balls|kites
  toy: wheels|keys|nails|bags *2
  skill: medals|badges|prizes|banners *2
  sight: postcards|photos|prints|maps *2
shade
  : ~red|~blue|~green|~yellow|~purple|~orange|~pink|~white|~golden|~silver|~brown|~gray|~black|~striped|~spotted|~tiny
    |~huge|~soft|~shiny|~round|~pretty|~lovely|~new|~big|~small|~fine|~cute
gift wish
  *: cake|candle|book|ring|toy car|pen|teacup|pencil|plant|rocket|basket|bracelet|purse|box|bowl|blanket|jug|fan
  *: sweater|notebook|picture|clock|mug|cushion|brush|whistle|ball|lamp|spoon|toy bear|rug|plate|rose|jar
  toy: key|cloth|chest|stand *2
  skill: ribbon|medal|cup|badge *2
  sight: postcard|photo|map|album *2
walk
  : <count> <damp> <flock> and <shade2> <thing>
damp place
  *: tired|quiet|old|sleepy|silent|hungry|lonely|thin|slow|shy|gray|skinny|sad|noisy|happy|fat|young|calm|rude
  town: busy|smelly|stray|hurried *2
  farm: muddy|dusty|tame|well-fed *2
  woods: hidden|shaggy|wild|mossy *2
  sea: salty|wet|sandy|sunburnt *2
  river: soggy|slimy|muddy|dripping *2
  hill: windblown|hardy|frozen|cold *2
flock = beasts
shade2 = shabby
thing = object
moral wish granted
  * yes: I am so proud|You never quit|You earned it|Good job|Help {friend} too
  toy yes: Take good care of it|Share it|Keep it safe
  skill yes: Well done|Show me|Now teach {friend}
  sight yes: Lucky you|How lovely|Tell me more
  * no: Not all wishes come true|Cheer up|Do not be sad|I love you|You tried
  toy no: Friends matter more|We do not need it|You have {friend}
  skill no: Keep trying|You did your best|Mistakes are fine
  sight no: We will look again|Never mind|Maybe next time
kin
  : mom|dad|mother|father|grandma|grandpa|aunt|uncle|sister|brother|cousin|nanny
"""
