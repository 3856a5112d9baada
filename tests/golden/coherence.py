"""Golden numbers for the UMass coherence of topics, by gensim.

    python -m pip install gensim==4.4.0 numpy && python tests/golden/coherence.py > tests/golden/coherence.json
"""

import json
import random

import gensim
from gensim.corpora import Dictionary
from gensim.models.coherencemodel import CoherenceModel

WORDS, DOCUMENTS = 30, 60

# Three themes of ten words each; a document draws most of its words from one theme, with a few from anywhere.
chance = random.Random(20240611)
corpus = []
for document in range(DOCUMENTS):
    theme = document % 3
    counts = {}
    for _ in range(chance.randint(2, 14)):
        word = 10 * theme + chance.randrange(10) if chance.random() < 0.8 else chance.randrange(WORDS)
        counts[word] = counts.get(word, 0) + 1
    corpus.append(sorted(counts.items()))
corpus[7] = []  # gensim counts a document without words among the documents

topics = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    [19, 12, 15, 11],
    [20, 10, 0, 29, 5, 17],
    [9, 8],
    chance.sample(range(WORDS), 12),
]
names = [f"{word:02}" for word in range(WORDS)]
dictionary = Dictionary([names])
assert all(dictionary.token2id[name] == index for index, name in enumerate(names))
model = CoherenceModel(
    topics=[[names[word] for word in topic] for topic in topics],
    corpus=corpus, dictionary=dictionary, coherence="u_mass", topn=12,
)
print(json.dumps({
    "made_by": f"gensim {gensim.__version__}",
    "words": WORDS,
    "corpus": corpus,
    "topics": topics,
    "coherence": [float(value) for value in model.get_coherence_per_topic()],
}))
