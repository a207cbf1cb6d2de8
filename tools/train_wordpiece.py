"""How actlab/data/vocab.txt was made: WordPiece of 2,048 pieces, trained on 20,000 stories of the grammar.

Run once, from the root of the repository: python tools/train_wordpiece.py. It writes the file and prints its SHA-256,
which actlab/data/tokenizers.py holds. The `tokenizers` library breaks ties by chance, so another run gives another
vocabulary, just as good: it changes the hash, and with it every loss on those tokens.
The stories were version 1's, of which a fifteenth is now the test split.
"""

import string

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from actlab.data.grammar import stories
from actlab.data.sets.story_grammar import CORPUS_SEED
from actlab.data.tokenizer_kinds import SPECIALS, UNKNOWN
from actlab.data.tokenizers import OWN
from actlab.files import sha256

SIZE = 2048
N_STORIES = 20_000


def main() -> None:
    """Writes the vocabulary: special tokens, every ASCII character, then the pieces that the library found."""
    library = tokenizers.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=SIZE, show_progress=False)
    texts = (story.text for story in stories.stories(CORPUS_SEED, "train", N_STORIES))
    library.train_from_iterator(texts, trainer)
    found = sorted(library.get_vocab(), key=library.token_to_id)
    # Single characters, so that text from elsewhere has pieces too.
    inner = string.ascii_lowercase + string.digits
    characters = [*sorted({*inner, *string.punctuation}), *(f"##{character}" for character in inner)]
    pieces = list(dict.fromkeys([*SPECIALS, *characters, *found]))[:SIZE]
    OWN.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    print(f"{len(pieces)} pieces, SHA-256 {sha256(OWN)}")


if __name__ == "__main__":
    main()
