#include "runtime/checkpoint/checkpoint_records.hpp"

#include "tests/runtime/io/checkpoint_state.hpp"

namespace millrace::runtime {
namespace {

using testing::contains;
using testing::error_of;

Manifest small() {
  const auto hash = hash_of(std::string_view("x"));
  Manifest manifest{{7, 56, {{"seed", "1"}}, {{"build", "test"}}}, 3, "run", {}, {{"s", 100, hash}}, {}};
  manifest.tensors.push_back({"a", FileDType::f32, {2, 3}, "s", {hash}});
  manifest.tensors.push_back({"b", FileDType::bf16, {0}, "s", {}});
  manifest.state = manifest.state_hash();
  return manifest;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

/// Folders are compared by their bytes, so the format of the text must not change.
TEST(CheckpointRecords, AManifestIsWrittenAsEver) {
  const auto manifest = small();
  const auto hash = hash_of(std::string_view("x")).hex();
  EXPECT_EQ(manifest.text(), R"({
 "consumed_samples": 56,
 "epoch": 3,
 "identity": {
  "seed": "1"
 },
 "notes": {
  "build": "test"
 },
 "run": "run",
 "schema": 1,
 "shards": [
  {
   "bytes": 100,
   "file": "s",
   "header": ")" + hash + R"("
  }
 ],
 "state": ")" + manifest.state.hex() +
                                 R"(",
 "step": 7,
 "tensors": [
  {
   "chunks": [
    ")" + hash + R"("
   ],
   "dtype": "F32",
   "name": "a",
   "shape": [
    2,
    3
   ],
   "shard": "s"
  },
  {
   "chunks": [],
   "dtype": "BF16",
   "name": "b",
   "shape": [
    0
   ],
   "shard": "s"
  }
 ]
}
)");
  EXPECT_EQ(Manifest::from_text(manifest.text(), "m").text(), manifest.text());
}

TEST(CheckpointRecords, RefusesWhatAManifestCannotSay) {
  const auto text = small().text();
  const auto hash = hash_of(std::string_view("x")).hex();
  const struct {
    const char *from, *to, *word;
  } table[] = {
      {"\"schema\": 1", "\"schema\": 4", "schema = 4, expected 1 to 3"},
      {"\"schema\": 1", "\"schema\": \"1\"", "schema = \"1\", expected an integer from 0"},
      {"\"step\": 7", "\"steps\": 7", "step is missing"},
      {"\"step\": 7", "\"step\": -7", "step = -7, expected an integer from 0"},
      {"\"epoch\": 3", "\"epoch\": 3.0", "epoch = 3.0, expected an integer from 0"},
      {"\"run\": \"run\"", "\"run\": 1", "run = 1, expected a string"},
      {"\"seed\": \"1\"", "\"seed\": 1", "identity.seed = 1, expected a string"},
      {"\"build\": \"test\"", "\"build\": []", "notes.build = [], expected a string"},
      {"\"file\": \"s\"", "\"file\": \"a/s\"", "'a/s' is not a file name, or appears twice"},
      {"\"file\": \"s\"", "\"file\": \"t\"", "tensor 'a' is in the unlisted file 's'"},
      {"\"name\": \"b\"", "\"name\": \"a\"", "tensor 'a' is out of order or appears twice"},
      {"\"name\": \"a\"", "\"name\": \"c\"", "tensor 'b' is out of order"},
      {"\"dtype\": \"F32\"", "\"dtype\": \"F31\"", "tensors[0].dtype = \"F31\", expected the dtype of a safetensors file"},
      {"\"dtype\": \"F32\"", "\"dtype\": \"F64\"", "the state hash is not that of its tensors"},
      {"    2,\n", "    -2,\n", "tensors[0].shape[0] = -2, expected an integer from 0"},
      {"    0\n", "    9\n", "tensor 'b' has 0 chunk hashes, expected 1"},
      {"    2,\n    3\n", "    0\n", "tensor 'a' has 1 chunk hashes, expected 0"},
      {"    2,\n    3\n", "    1048576\n", "the state hash is not"},
      {"    2,\n    3\n", "    1048577\n", "tensor 'a' has 1 chunk hashes, expected 2"},
      {"\"chunks\": []", "\"chunks\": [1]", "tensors[1].chunks[0] = 1, expected a string"},
      {"\"chunks\": []", "\"chunks\": {}", "tensors[1].chunks = {}, expected an array"},
      {"\"chunks\": []", "\"chunks\": [[[[1]]]]", "nested deeper than 6"},
      {"\"header\": \"", "\"header\": \"z", "manifest.json: "},
      {"\"epoch\": 3", "\"epoch\": 3, \"epoch\": 3", "'epoch' appears twice"},
  };
  for (const auto& [from, to, word] : table) {
    const auto message =
        error_of(ExitCode::checkpoint, [&, f = from, t = to] { (void)Manifest::from_text(replaced(text, f, t), "a/manifest.json"); });
    EXPECT_TRUE(contains(message, word) && contains(message, "a/manifest.json")) << to << ": " << message;
  }
  auto twice = small();
  twice.shards.push_back(twice.shards[0]);
  EXPECT_TRUE(contains(error_of(ExitCode::checkpoint, [&] { (void)Manifest::from_text(twice.text(), "m"); }), "'s' is not a file name"));
}

/// Two of four experts in each of two files.
Manifest sliced() {
  auto manifest = small();
  manifest.shards.push_back({"t", 100, hash_of(std::string_view("x"))});
  std::vector<Hash128> chunks;
  for (const char* expert : {"0", "1", "2", "3"}) chunks.push_back(hash_of(std::string_view(expert)));
  manifest.tensors.push_back({"c", FileDType::f32, {4, 3}, "", chunks, 4, {{"s", 0, 2}, {"t", 2, 2}}});
  manifest.state = manifest.state_hash();
  return manifest;
}

TEST(CheckpointRecords, AManifestWithExpertsHasASchemaOfItsOwn) {
  const auto manifest = sliced();
  const auto text = manifest.text();
  EXPECT_TRUE(contains(text, "\"schema\": 2"));
  const auto read = Manifest::from_text(text, "m");
  EXPECT_EQ(read.text(), text);
  ASSERT_EQ(read.tensors.at(2).slices.size(), 2U);
  EXPECT_EQ(read.tensors.at(2).slices[1].shard, "t");
  // Who wrote which expert is not part of the state.
  auto other = manifest;
  other.tensors[2].slices = {{"t", 0, 4}};
  EXPECT_EQ(Manifest::from_text(other.text(), "m").state, manifest.state);
}

TEST(CheckpointRecords, RefusesExpertsThatAreNotInOrder) {
  const auto text = sliced().text();
  const struct {
    const char *from, *to, *word;
  } table[] = {
      {"\"schema\": 2", "\"schema\": 1", "tensor 'c' has slices of experts, expected none in a manifest of schema 1"},
      {"\"first\": 2", "\"first\": 1", "tensor 'c' has experts 0 to 1 (s) and 1 to 2 (t), expected 0 to 3, each once"},
      {"\"first\": 2", "\"first\": 4", "first = 4, expected an integer from 0 to 3"},
      {"\"count\": 2", "\"count\": 5", "count = 5, expected an integer from 1 to 4"},
      {"\"count\": 2", "\"count\": 1", "tensor 'c' has 4 chunk hashes, expected 3"},
      {"\"experts\": 4", "\"experts\": 2", "experts = 2, expected 4, the size of the tensor's first axis"},
      {"\"shard\": \"t\"", "\"shard\": \"u\"", "tensor 'c' is in the unlisted file 'u'"},
  };
  for (const auto& [from, to, word] : table) {
    const auto message =
        error_of(ExitCode::checkpoint, [&, f = from, t = to] { (void)Manifest::from_text(replaced(text, f, t), "a/manifest.json"); });
    EXPECT_TRUE(contains(message, word)) << to << ": " << message;
  }
}

TEST(CheckpointRecords, SlicesOfDifferentTensorsAreNotJoined) {
  const auto hash = hash_of(std::string_view("x"));
  const TensorRecord first{"c", FileDType::f32, {2, 3}, "", {hash}, 2, {{"s", 0, 1}}};
  TensorRecord second{"c", FileDType::f32, {2, 3}, "", {hash}, 2, {{"t", 1, 1}}};
  EXPECT_EQ(joined({second, first}, "here").at(0).chunks.size(), 2U);
  second.shape = {2, 4};
  EXPECT_TRUE(contains(error_of(ExitCode::internal,
                                [&] {
                                  (void)joined({second, first}, "here");
                                }),
                       "here: tensor 'c' is F32 [2, 3] of 2 experts in one file and F32 [2, 4] of 2 experts in another"));
}

/// A tensor of two and a half chunks in two files.
Manifest divided() {
  Manifest manifest = sliced();
  const auto hash = hash_of(std::string_view("x"));
  const std::int64_t chunk = hash_chunk_bytes / 4;
  manifest.tensors = {{"d", FileDType::f32, {5, chunk / 2}, "", {hash, hash, hash}, 0, {{"s", 0, 2 * chunk}, {"t", 2 * chunk, chunk / 2}}}};
  manifest.state = manifest.state_hash();
  return manifest;
}

TEST(CheckpointRecords, ADividedTensorHasTheHashOfAWholeOne) {
  const auto manifest = divided();
  const auto text = manifest.text();
  EXPECT_TRUE(contains(text, "\"schema\": 3"));
  const auto read = Manifest::from_text(text, "m");
  EXPECT_EQ(read.text(), text);
  EXPECT_EQ(read.tensors[0].units(), 5 * static_cast<std::int64_t>(hash_chunk_bytes) / 8);
  auto whole = manifest;
  whole.tensors[0].slices.clear();
  whole.tensors[0].shard = "s";
  EXPECT_TRUE(contains(whole.text(), "\"schema\": 1"));
  EXPECT_EQ(whole.state_hash(), manifest.state);
}

TEST(CheckpointRecords, RefusesElementsThatAreNotInOrder) {
  const auto text = divided().text();
  const struct {
    const char *from, *to, *word;
  } table[] = {
      {"\"schema\": 3", "\"schema\": 2", "tensor 'd' has slices of elements, expected none in a manifest of schema 2"},
      {"\"first\": 2097152", "\"first\": 1048576",
       "tensor 'd' has elements 0 to 2097151 (s) and 1048576 to 1572863 (t), expected 0 to 2621439"},
      {"\"first\": 2097152", "\"first\": 2621440", "first = 2621440, expected an integer from 0 to 2621439"},
      {"\"count\": 2097152", "\"count\": 1000", "tensor 'd' has 3 chunk hashes, expected 2"},
      {"\"count\": 2097152", "\"count\": 2097151", "expected 0 to 2621439, each once and from multiples of 1048576 on"},
  };
  for (const auto& [from, to, word] : table) {
    const auto message =
        error_of(ExitCode::checkpoint, [&, f = from, t = to] { (void)Manifest::from_text(replaced(text, f, t), "a/manifest.json"); });
    EXPECT_TRUE(contains(message, word)) << to << ": " << message;
  }
}

TEST(CheckpointRecords, ATensorIsNotPartlyInSlices) {
  const auto hash = hash_of(std::string_view("x"));
  const TensorRecord slice{"c", FileDType::f32, {2, 3}, "", {hash}, 0, {{"s", 0, 6}}}, whole{"c", FileDType::f32, {2, 3}, "t", {hash}};
  EXPECT_EQ(joined({slice}, "here").size(), 1U);
  for (const auto& tensors : {std::vector{slice, whole}, std::vector{whole, slice}})
    EXPECT_TRUE(contains(error_of(ExitCode::internal, [&] { (void)joined(tensors, "here"); }), "F32 [2, 3] in one piece"));
}

TEST(CheckpointRecords, ACommitIsReadOnlyAsItIsWritten) {
  const Commit commit{7, 3, 100, hash_of(std::string_view("x"))};
  const auto read = Commit::from_text(commit.text(), "COMMIT");
  EXPECT_EQ(read.step, 7U);
  EXPECT_EQ(read.epoch, 3U);
  EXPECT_EQ(read.manifest_bytes, 100U);
  EXPECT_EQ(read.manifest, commit.manifest);
  for (const auto& text : {commit.text() + "\n", commit.text().substr(0, commit.text().size() - 1), " " + commit.text(),
                           replaced(commit.text(), "}", ",\"more\":1}")})
    EXPECT_TRUE(
        contains(error_of(ExitCode::checkpoint, [&, t = text] { (void)Commit::from_text(t, "f/COMMIT"); }), "not as it was written"));
}

// Three writers of one tensor, and one that has it whole: one state, which is read in any parts.
TEST(CheckpointReader, ReadsATensorOfSeveralWriters) {
  const testing::Scratch scratch;
  const std::int64_t chunk = hash_chunk_bytes / 4, all = 3 * chunk + 700;
  std::vector<float> values;
  for (std::int64_t i = 0; i < all; ++i) values.push_back(static_cast<float>(i % 8191));
  const auto save_parts = [&](const std::string& run, const std::vector<std::int64_t>& cuts) {
    CheckpointStore store(run);
    const auto folder = store.begin(1, 64 << 20);
    std::vector<ShardReport> reports;
    const auto writers = static_cast<int>(cuts.size()) - 1;
    for (int writer = 0; writer < writers; ++writer) {
      const auto at = static_cast<std::size_t>(writer);
      const std::int64_t first = cuts[at], count = cuts[at + 1] - first;
      const auto bytes = std::as_bytes(std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
      CheckpointTensor tensor{"w", FileDType::f32, {count}, bytes, {}, first, 0, {all}};
      if (writers == 1) tensor = {"w", FileDType::f32, {all}, bytes, {}};
      reports.push_back(ShardReport::from_text(write_shard(folder, writer, writers, std::span(&tensor, 1)).text()));
    }
    CheckpointMeta meta;
    meta.step = 1;
    return CheckpointReader(store.commit(folder, reports, meta).folder);
  };
  const auto whole = save_parts(scratch / "whole", {0, all}), parts = save_parts(scratch / "parts", {0, 2 * chunk, 3 * chunk, all});
  EXPECT_EQ(parts.state_hash(), whole.state_hash());
  EXPECT_EQ(parts.hash_data(), whole.state_hash());
  EXPECT_TRUE(parts.verify().empty());
  for (const auto& [first, count] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, all}, {2 * chunk - 5, 10}, {chunk, 2 * chunk + 1}}) {
    std::vector<float> read(static_cast<std::size_t>(count));
    parts.read("w", read, {first, count, all});
    EXPECT_TRUE(std::ranges::equal(read, std::span(values).subspan(static_cast<std::size_t>(first), read.size()))) << first;
  }
  CheckpointStore store(scratch / "bad");
  const auto folder = store.begin(1, 64 << 20);
  const CheckpointTensor inside{"w", FileDType::f32, {100}, std::as_bytes(std::span(values).first(100)), {}, 100, 0, {all}};
  EXPECT_TRUE(contains(error_of(ExitCode::internal, [&] { (void)write_shard(folder, 0, 1, std::span(&inside, 1)); }),
                       "tensor 'w' is [100] from element 100 on, expected a run of"));
}

TEST(CheckpointReader, HashesTheDataAndNotWhatTheManifestSays) {
  const testing::Scratch scratch;
  CheckpointStore store(scratch / "run");
  std::vector<float> values(hash_chunk_bytes / 4 + 100, 0.5F);
  const std::vector<CheckpointTensor> tensors = {
      {"a", FileDType::f32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values)), {}},
      {"b", FileDType::bf16, {3}, std::as_bytes(std::span(values)).first(6), {}}};
  const auto temporary = store.begin(10, values.size() * 4);
  const std::vector<ShardReport> reports = {write_shard(temporary, 0, 1, tensors)};
  const auto folder = store.commit(temporary, reports, testing::State(10).meta()).folder;
  EXPECT_EQ(CheckpointReader(folder).hash_data(), CheckpointReader(folder).manifest().state);
  const auto path = folder + "/shard-00000-of-00001.safetensors";
  auto bytes = testing::slurp(path);
  bytes[bytes.size() - 10] ^= 1;
  testing::spill(path, bytes);
  EXPECT_TRUE(contains(error_of(ExitCode::checkpoint, [&] { (void)CheckpointReader(folder).hash_data(); }), "'a' at byte 4194304"));
}

}  // namespace
}  // namespace millrace::runtime
