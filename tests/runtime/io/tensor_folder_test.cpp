#include "runtime/io/tensor_folder.hpp"

#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::error_of;
using testing::Scratch;
using testing::slurp;
using testing::spill;

const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};

std::vector<TensorToWrite> model() {
  const auto bytes = std::as_bytes(std::span(values));
  return {
      {"c", FileDType::f32, {2, 4}, bytes}, {"a", FileDType::f32, {4}, bytes.first(16)}, {"b", FileDType::bf16, {2}, bytes.subspan(16, 4)}};
}

void write(const std::string& folder, std::uint64_t max_shard_bytes) {
  write_tensor_folder(folder, describe(model()), {{"format", "pt"}}, producer_of(model()), max_shard_bytes);
}

std::string opening_error(const std::string& folder) {
  return error_of(ExitCode::model, [&] { const TensorSource source(folder); });
}

void replace(const std::string& path, const std::string& from, const std::string& to) {
  auto text = slurp(path);
  const auto place = text.find(from);
  ASSERT_NE(place, std::string::npos) << from;
  spill(path, text.replace(place, from.size(), to));
}

TEST(TensorFolder, OneFileOrManyGiveTheSameTensors) {
  const Scratch scratch;
  for (const std::uint64_t most : {1'000'000ULL, 36ULL, 20ULL, 1ULL}) {
    const auto folder = scratch / ("m" + std::to_string(most));
    write(folder, most);
    EXPECT_EQ(fs::exists(folder + "/model.safetensors"), most > 52);
    const TensorSource source(folder);
    EXPECT_EQ(source.names(), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(source.total_bytes(), 52U);
    EXPECT_EQ(source.at("c").shape, (std::vector<std::int64_t>{2, 4}));
    std::vector<float> c(8);
    source.read("c", std::span(c));
    EXPECT_EQ(c, values);
    std::vector<std::byte> b(2);
    source.read_bytes("b", 2, b);
    EXPECT_EQ(b[1], std::as_bytes(std::span(values))[19]);
    EXPECT_FALSE(source.has("d"));
    EXPECT_TRUE(contains(error_of(ExitCode::model, [&] { (void)source.at("d"); }), "no tensor 'd'"));
  }
}

TEST(TensorFolder, AnExportReplacesTheOneBefore) {
  const Scratch scratch;
  write(scratch / "m", 1);
  spill(scratch / "m/config.json", "{}");
  write(scratch / "m", 1'000'000);
  EXPECT_EQ(list_directory(scratch / "m"), (std::vector<std::string>{"config.json", "model.safetensors"}));
  write(scratch / "m", 36);
  EXPECT_EQ(TensorSource(scratch / "m").names().size(), 3U);
}

TEST(TensorFolder, ImportAndExportAreTheIdentity) {
  const Scratch scratch;
  write(scratch / "m", 1'000'000);
  const TensorSource source(scratch / "m");
  std::vector<FileTensor> tensors;
  for (const auto& name : source.names()) tensors.push_back(source.at(name));
  write_tensor_folder(scratch / "n", tensors, {{"format", "pt"}}, [&](const FileTensor& tensor, const ByteSink& sink) {
    std::vector<std::byte> bytes(tensor.bytes());
    source.read_bytes(tensor.name, 0, bytes);
    sink(bytes);
  });
  EXPECT_EQ(slurp(scratch / "m/model.safetensors"), slurp(scratch / "n/model.safetensors"));
}

TEST(TensorFolder, ChecksAgainstTheModelInOneMessage) {
  const Scratch scratch;
  write(scratch / "m", 1'000'000);
  const TensorSource source(scratch / "m");
  const std::vector<ExpectedTensor> right = {{"a", {4}}, {"b", {2}}, {"c", {2, 4}}};
  source.check(right);
  const std::vector<ExpectedTensor> wrong = {{"a", {4}}, {"c", {4, 2}}, {"d", {1}}};
  const auto message = error_of(ExitCode::model, [&] { source.check(wrong); });
  EXPECT_TRUE(contains(message, "1 missing: d") && contains(message, "1 unexpected: b") &&
              contains(message, "c is [2, 4], expected [4, 2]"))
      << message;
  source.check(std::vector<ExpectedTensor>{{"a", {4}}}, std::vector<std::string>{"b", "c", "rotary"});
}

/// Ten names are shown, and the number of the others.
TEST(TensorFolder, NamesTenOfMany) {
  const Scratch scratch;
  write(scratch / "m", 1'000'000);
  const TensorSource source(scratch / "m");
  std::vector<ExpectedTensor> expected = {{"a", {4}}, {"b", {2}}, {"c", {2, 4}}};
  for (const char name : std::string("0123456789")) expected.push_back({std::string("x") + name, {1}});
  const std::string ten = "10 missing: x0, x1, x2, x3, x4, x5, x6, x7, x8, x9";
  EXPECT_TRUE(error_of(ExitCode::model, [&] { source.check(expected); }).ends_with(ten));
  expected.push_back({"y", {1}});
  expected.push_back({"z", {1}});
  EXPECT_TRUE(error_of(ExitCode::model, [&] { source.check(expected); }).ends_with("12 missing" + ten.substr(10) + " and 2 more"));
}

class Index : public ::testing::Test {
 protected:
  Index() { write(folder, 20); }  // two files: one with a and b, one with c
  Scratch scratch;
  std::string folder = scratch / "m";
  std::string index = folder + "/model.safetensors.index.json";
  std::string first = "model-00001-of-00002.safetensors";
  std::string second = "model-00002-of-00002.safetensors";
};

TEST_F(Index, FileNamesArePlain) {
  for (const char* name : {"../m/x.safetensors", "/etc/passwd", "..", "a/b", "", ".", "a\\u0000", "/"}) {
    write(folder, 20);
    replace(index, "\"" + second + "\"", "\"" + std::string(name) + "\"");
    EXPECT_TRUE(contains(opening_error(folder), "not a plain name")) << name;
  }
  for (const std::size_t length : {255U, 256U}) {
    write(folder, 20);
    const std::string name(length, 'n');
    replace(index, "\"" + second + "\"", "\"" + name + "\"");
    EXPECT_TRUE(contains(opening_error(folder), length == 255 ? name + ": No such file, but " : "not a plain name")) << length;
  }
}

TEST_F(Index, EveryTensorIsWhereTheIndexSays) {
  replace(index, second, first);
  EXPECT_TRUE(contains(opening_error(folder), "'c' is not in " + first));
  write(folder, 20);
  replace(index, "\"b\"", "\"x\"");
  EXPECT_TRUE(contains(opening_error(folder), "'b' is not in the index"));
  write(folder, 20);
  fs::copy_file(folder + "/" + first, folder + "/" + second, fs::copy_options::overwrite_existing);
  EXPECT_TRUE(contains(opening_error(folder), "'a' is in both " + folder + "/" + first));
}

TEST_F(Index, MissingFilesAndSizesAreNamed) {
  replace(index, "\"total_size\": 52", "\"total_size\": 53");
  EXPECT_TRUE(contains(opening_error(folder), "total_size is 53, but the tensors have 52"));
  write(folder, 20);
  replace(index, "\"total_size\": 52", "\"total_size\": 52.0");
  EXPECT_EQ(TensorSource(folder).total_bytes(), 52U);
  for (const char* size : {"-1.0", "9e18", "\"52\"", "null", "true"}) {
    write(folder, 20);
    replace(index, "\"total_size\": 52", "\"total_size\": " + std::string(size));
    EXPECT_TRUE(contains(opening_error(folder), "index.json: total_size is not a number of bytes")) << size;
  }
  write(folder, 20);
  replace(index, "\"total_size\": 52", "\"total_size\": 0.0");
  EXPECT_TRUE(contains(opening_error(folder), "total_size is 0, but"));
  for (const char* metadata : {"\"metadata\": 5", "\"metadata\": {}", "\"else\": {\"total_size\": 5}"}) {
    write(folder, 20);
    const auto text = slurp(index);
    const auto begin = text.find("\"metadata\"");
    spill(index, text.substr(0, begin) + metadata + text.substr(text.find('}', begin) + 1));
    EXPECT_EQ(TensorSource(folder).total_bytes(), 52U) << metadata;
  }
  write(folder, 20);
  fs::remove(folder + "/" + second);
  EXPECT_TRUE(contains(opening_error(folder), second));
  EXPECT_TRUE(contains(opening_error(scratch / "nothing"), "neither model.safetensors nor model.safetensors.index.json exists"));
}

TEST_F(Index, HostileJsonIsRefused) {
  for (const char* text :
       {"", "[]", "{}", "{\"weight_map\":{\"a\":1}}", "{\"weight_map\":[]}", "{\"weight_map\":{\"a\":\"x\",\"\\u0061\":\"x\"}}",
        "{\"weight_map\":{}} x", "{\"metadata\":{\"total_size\":-1},\"weight_map\":{}}", "[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]"}) {
    spill(index, text);
    EXPECT_TRUE(contains(opening_error(folder), "index.json")) << text;
  }
}

TEST_F(Index, LinksStayInTheFolderOrInTheCache) {
  fs::rename(folder + "/" + second, scratch / "outside.safetensors");
  fs::create_symlink("../outside.safetensors", folder + "/" + second);
  EXPECT_TRUE(contains(opening_error(folder), "leads out of the folder"));
  fs::remove(folder + "/" + second);
  fs::create_symlink("nothing", folder + "/" + second);
  EXPECT_TRUE(contains(opening_error(folder), folder + "/" + second + ": the link cannot be resolved: No such file"));
  fs::remove(folder + "/" + second);
  fs::copy_file(scratch / "outside.safetensors", folder + "/beside");
  fs::create_symlink("beside", folder + "/" + second);
  EXPECT_EQ(TensorSource(folder).names().size(), 3U) << "a link to a neighbour";
  fs::rename(index, scratch / "index.json");
  fs::create_symlink("../index.json", index);
  EXPECT_TRUE(contains(opening_error(folder), index + ": the link leads out of the folder"));
  fs::remove(index);
  fs::rename(scratch / "index.json", index);
  const auto snapshot = scratch / "models--x/snapshots/1";
  fs::create_directories(snapshot);
  fs::create_directories(scratch / "models--x/blobs");
  fs::rename(scratch / "outside.safetensors", scratch / "models--x/blobs/cafe");
  fs::create_symlink("../../blobs/cafe", snapshot + "/" + second);
  fs::copy_file(folder + "/" + first, snapshot + "/" + first);
  fs::copy_file(index, snapshot + "/model.safetensors.index.json");
  EXPECT_EQ(TensorSource(snapshot).names().size(), 3U);
}

}  // namespace
}  // namespace millrace::runtime
