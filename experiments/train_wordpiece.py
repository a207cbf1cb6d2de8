"""How actlab/data/vocab.txt was made: WordPiece of 2,048 pieces, trained on 20,000 stories of the grammar.

Run once, from the root of the repository: python experiments/train_wordpiece.py. It writes the file and prints its
SHA-256, which actlab/data/wordpiece.py holds. The `tokenizers` library breaks ties by chance, so that another run gives
a vocabulary as good and not the same: whoever runs it again changes the hash, and with it every loss on those tokens.
"""

import string

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from actlab.data import folders, sources, story_grammar, wordpiece

SIZE = 2048
N_STORIES = 20_000


def main() -> None:
    """Writes the vocabulary: marks, every ASCII character, then what the library found, in its order."""
    library = tokenizers.Tokenizer(models.WordPiece(unk_token=wordpiece.UNKNOWN))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=SIZE, show_progress=False)
    texts = (story.text for story in story_grammar.stories(sources.CORPUS_SEED, "train", N_STORIES))
    library.train_from_iterator(texts, trainer)
    found = sorted(library.get_vocab(), key=library.token_to_id)
    # So that text the grammar does not write has pieces too.
    inner = string.ascii_lowercase + string.digits
    characters = [*sorted({*inner, *string.punctuation}), *(f"##{character}" for character in inner)]
    pieces = list(dict.fromkeys([*wordpiece.SPECIALS, *characters, *found]))[:SIZE]
    wordpiece.OWN.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    print(f"{len(pieces)} pieces, SHA-256 {folders.sha256(wordpiece.OWN)}")


if __name__ == "__main__":
    main()
