#include "runtime/io/safetensors.hpp"

#include <cstring>
#include <random>

#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime {
namespace {

using testing::contains;
using testing::error_of;
using testing::Scratch;
using testing::slurp;
using testing::spill;

std::string file_bytes(const std::string& json, std::size_t data_bytes) {
  std::string bytes;
  for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>((json.size() >> (8 * byte)) & 0xffU);
  return bytes + json + std::string(data_bytes, '\x01');
}

struct Small {
  std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  std::vector<std::uint16_t> scale = {0x3f80, 0x4000};  // bf16 1, 2
  std::vector<std::int64_t> count = {-7};
  [[nodiscard]] std::vector<TensorToWrite> tensors() const {
    return {{"scale", FileDType::bf16, {2}, std::as_bytes(std::span(scale))},
            {"weight", FileDType::f32, {2, 3}, std::as_bytes(std::span(weight))},
            {"nothing", FileDType::f32, {0, 5}, {}},
            {"count", FileDType::i64, {}, std::as_bytes(std::span(count))}};
  }
};

TEST(Safetensors, ReturnsWhatWasWritten) {
  const Scratch scratch;
  const auto path = scratch / "model.safetensors";
  write_safetensors(path, Small{}.tensors(), {{"format", "pt"}, {"quote", "\"\\\n"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("quote"), "\"\\\n");
  EXPECT_EQ(file.header().data_offset % 8, 0U);
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.at("weight").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.at("count").shape.size(), 0U);
  EXPECT_EQ(file.at("nothing").bytes(), 0U);
  std::vector<float> weight(6), scale(2), nothing;
  file.read("weight", std::span(weight));
  file.read("scale", std::span(scale));
  file.read("nothing", std::span(nothing));
  EXPECT_EQ(weight, Small{}.weight);
  EXPECT_EQ(scale, (std::vector<float>{1, 2}));
  std::vector<float> middle(3), last(1);
  file.read_part("weight", 2, middle);
  file.read_part("scale", 1, last);
  EXPECT_EQ(middle, (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(last, (std::vector<float>{2}));
  EXPECT_TRUE(contains(error_of(ExitCode::model, [&] { file.read_part("weight", 4, middle); }), "expected 3 from 4 on"));
  std::vector<kernels::BFloat16> narrow(6);
  file.read("weight", std::span(narrow));
  EXPECT_EQ(narrow[5].bits, 0x40c0);
  EXPECT_TRUE(contains(error_of(ExitCode::model, [&] { file.read("count", std::span(weight).first(1)); }), "I64"));
  EXPECT_TRUE(contains(error_of(ExitCode::model, [&] { file.read("scale", std::span(weight)); }), "expected 6"));
  EXPECT_TRUE(contains(error_of(ExitCode::model, [&] { file.read("bias", std::span(weight)); }), "no tensor 'bias'"));
}

TEST(Safetensors, ConvertsTensorsLargerThanItsScratch) {
  const Scratch scratch;
  std::vector<float> values(700'001);
  for (std::size_t index = 0; index < values.size(); ++index) values[index] = static_cast<float>(index % 1001);
  write_safetensors(scratch / "a.safetensors",
                    std::vector<TensorToWrite>{{"w", FileDType::f32, {700'001}, std::as_bytes(std::span(values))}});
  std::vector<kernels::BFloat16> narrow(values.size());
  SafetensorsFile(scratch / "a.safetensors").read("w", std::span(narrow));
  for (std::size_t index = 0; index < values.size(); ++index)
    ASSERT_EQ(narrow[index].bits, kernels::to_bfloat16(values[index]).bits) << index;
}

TEST(Safetensors, LaysOutAsTheReferenceWriter) {
  const Scratch scratch;
  const std::vector<float> a = {1};
  const std::vector<std::uint16_t> b = {0x3f80};
  const std::vector<TensorToWrite> tensors = {{"b", FileDType::bf16, {1}, std::as_bytes(std::span(b))},
                                              {"z", FileDType::f32, {1}, std::as_bytes(std::span(a))}};
  write_safetensors(scratch / "a", tensors, {{"format", "pt"}});
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]}})";
  const auto padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  EXPECT_EQ(slurp(scratch / "a"), file_bytes(padded, 0) + std::string("\x00\x00\x80\x3f\x80\x3f", 6));
  write_safetensors(scratch / "b", std::vector<TensorToWrite>{tensors[1], tensors[0]}, {{"format", "pt"}});
  EXPECT_EQ(slurp(scratch / "a"), slurp(scratch / "b"));
}

TEST(Safetensors, RefusesEveryPrefix) {
  const Scratch scratch;
  write_safetensors(scratch / "whole", Small{}.tensors(), {{"format", "pt"}});
  const auto whole = slurp(scratch / "whole");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    spill(scratch / "cut", whole.substr(0, length));
    ASSERT_TRUE(contains(error_of(ExitCode::model, [&] { const SafetensorsFile file(scratch / "cut"); }), "/cut")) << length;
  }
  spill(scratch / "long", whole + "x");
  EXPECT_NE(error_of(ExitCode::model, [&] { const SafetensorsFile file(scratch / "long"); }), "");
}

TEST(Safetensors, TwoThousandFlippedBitsGiveAnErrorOrAWholeFile) {
  const Scratch scratch;
  write_safetensors(scratch / "whole", Small{}.tensors(), {{"format", "pt"}});
  const auto whole = slurp(scratch / "whole");
  std::mt19937 random(3);
  int refused = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    auto damaged = whole;
    const auto bit = random() % (whole.size() * 8);
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    spill(scratch / "flipped", damaged);
    try {
      const SafetensorsFile file(scratch / "flipped");
      std::uint64_t total = 0;
      for (const auto& tensor : file.tensors()) {
        std::vector<std::byte> bytes(tensor.bytes());
        file.read_bytes(tensor, 0, bytes);
        total += tensor.bytes();
      }
      ASSERT_EQ(file.header().data_offset + total, whole.size());
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::model) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Safetensors, AFileCutShortAfterOpeningIsAnErrorAndNoCrash) {
  const Scratch scratch;
  const auto path = scratch / "model.safetensors";
  write_safetensors(path, Small{}.tensors());
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, file.header().data_offset + 10);
  std::vector<float> weight(6);
  const auto message = error_of(ExitCode::model, [&] { file.read("weight", std::span(weight)); });
  EXPECT_TRUE(contains(message, "'weight'") && contains(message, "cut short")) << message;
}

struct Hostile {
  const char* why;
  std::string json;
  std::size_t data_bytes;
  const char* word;  // expected in the message
};

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets, const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}

TEST(Safetensors, RefusesHostileHeaders) {
  const std::vector<Hostile> table = {
      {"array", "[]", 0, "begin with"},
      {"not JSON", "{xx}", 0, "not JSON"},
      {"space first", " {}", 0, "begin with"},
      {"line end after", "{}\n", 0, "end with"},
      {"trailing value", "{}{}", 0, "not JSON"},
      {"NUL", std::string("{\"a\0\":1}", 8), 0, "NUL"},
      {"hidden by a NUL", std::string("{}\0}", 4), 0, "NUL"},
      {"bad UTF-8", "{" + entry("\xff", "1", "0,4") + "}", 4, "not JSON"},
      {"hole", "{" + entry("a", "1", "0,4") + "," + entry("b", "1", "8,12") + "}", 12, "gap"},
      {"overlap", "{" + entry("a", "2", "0,8") + "," + entry("b", "1", "4,8") + "}", 8, "overlaps"},
      {"not from the start", "{" + entry("a", "1", "4,8") + "}", 8, "gap"},
      {"trailing bytes", "{" + entry("a", "1", "0,4") + "}", 5, "last tensor"},
      {"no tensor but data", "{}", 1, "last tensor"},
      {"beyond the file", "{" + entry("a", "2", "0,8") + "}", 4, "cut short"},
      {"backwards", "{" + entry("a", "1", "4,0") + "}", 4, "data_offsets"},
      {"size and shape differ", "{" + entry("a", "3", "0,4") + "}", 4, "expected 12 bytes"},
      {"product overflows", "{" + entry("a", "4294967296,4294967296,4294967296", "0,0") + "}", 0, "overflows"},
      {"product overflows before a zero", "{" + entry("a", "9223372036854775807,9223372036854775807,0", "0,0") + "}", 0, "overflows"},
      {"over 2^63", "{" + entry("a", "9223372036854775808", "0,0") + "}", 0, "2^63"},
      {"over 2^64", "{" + entry("a", "18446744073709551616", "0,0") + "}", 0, "whole number"},
      {"negative", "{" + entry("a", "-1", "0,4") + "}", 4, "sign"},
      {"minus zero", "{" + entry("a", "-0", "0,0") + "}", 0, "sign"},
      {"fraction", "{" + entry("a", "1.0", "0,4") + "}", 4, "whole number"},
      {"exponent", "{" + entry("a", "1e0", "0,4") + "}", 4, "whole number"},
      {"leading zero", "{" + entry("a", "01", "0,4") + "}", 4, "not JSON"},
      {"number as text", "{" + entry("a", "\"1\"", "0,4") + "}", 4, "string"},
      {"unknown dtype", "{" + entry("a", "1", "0,4", "F128") + "}", 4, "F128"},
      {"half a byte", "{" + entry("a", "1", "0,1", "F4") + "}", 1, "whole number of bytes"},
      {"name twice", "{" + entry("a", "1", "0,4") + "," + entry("a", "1", "4,8") + "}", 8, "twice"},
      {"name twice by an escape", "{" + entry("a", "1", "0,4") + "," + entry("\\u0061", "1", "4,8") + "}", 8, "twice"},
      {"empty name", "{" + entry("", "1", "0,4") + "}", 4, "without a name"},
      {"long name", "{" + entry(std::string(4097, 'a'), "1", "0,4") + "}", 4, "4097"},
      {"NUL in a name by an escape", "{" + entry("a\\u0000", "1", "0,4") + "}", 4, "NUL"},
      {"field twice", "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'dtype' twice"},
      {"field missing", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not all of"},
      {"unknown field", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"code\":\"x\"}}", 4, "'code'"},
      {"three offsets", "{" + entry("a", "1", "0,4,8") + "}", 4, "3 data_offsets"},
      {"one offset", "{" + entry("a", "1", "0") + "}", 4, "1 data_offsets"},
      {"33 dimensions", "{" + entry("a", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "0,4") + "}", 4, "32"},
      {"tensor is a number", "{\"a\":5}", 0, "number"},
      {"tensor is null", "{\"a\":null}", 0, "null"},
      {"tensor is true", "{\"a\":true}", 0, "boolean"},
      {"tensor is an array", "{\"a\":[]}", 0, "array"},
      {"shape nested", "{\"a\":{\"dtype\":\"F32\",\"shape\":[[1]],\"data_offsets\":[0,4]}}", 4, "array"},
      {"shape an object", "{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, "object"},
      {"metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ appears twice"},
      {"metadata key twice", "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "'k' twice"},
      {"metadata no object", "{\"__metadata__\":\"x\"}", 0, "string"},
      {"metadata of numbers", "{\"__metadata__\":{\"k\":1}}", 0, "number"},
      {"metadata nested", "{\"__metadata__\":{\"k\":{}}}", 0, "object"},
      {"a thousand brackets", "{\"a\":" + std::string(1000, '[') + "}", 0, "array"},
      {"a thousand braces", std::string(1000, '{') + "}", 0, "not JSON"},
  };
  const Scratch scratch;
  for (const auto& row : table) {
    spill(scratch / "hostile.safetensors", file_bytes(row.json, row.data_bytes));
    const auto message = error_of(ExitCode::model, [&] { const SafetensorsFile file(scratch / "hostile.safetensors"); });
    EXPECT_TRUE(contains(message, row.word) && contains(message, "hostile.safetensors")) << row.why << ": " << message;
  }
}

TEST(Safetensors, RefusesHostileLengths) {
  const Scratch scratch;
  const auto refused = [&](std::uint64_t length, std::size_t rest) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    spill(scratch / "f", bytes + std::string(rest, ' '));
    return error_of(ExitCode::checkpoint, [&] { const SafetensorsFile file(scratch / "f", ExitCode::checkpoint); });
  };
  EXPECT_TRUE(contains(refused(0, 10), "expected 2"));
  EXPECT_TRUE(contains(refused(1, 10), "expected 2"));
  EXPECT_TRUE(contains(refused(2, 0), "a header of 2 bytes in a file of 8: the file was cut short"));
  EXPECT_TRUE(contains(refused(2, 2), "does not begin with '{'"));
  EXPECT_TRUE(contains(refused(11, 10), "cut short"));
  EXPECT_TRUE(contains(refused(100'000'000, 10), "cut short"));
  EXPECT_TRUE(contains(refused(100'000'001, 10), "100000001"));
  EXPECT_TRUE(contains(refused(~std::uint64_t{0}, 10), "18446744073709551615"));
  spill(scratch / "f", std::string(7, '\0'));
  const auto message = error_of(ExitCode::checkpoint, [&] { const SafetensorsFile file(scratch / "f", ExitCode::checkpoint); });
  EXPECT_TRUE(contains(message, "/f: 7 bytes, expected 8 or more: the file was cut short")) << message;
}

TEST(Safetensors, AcceptsWhatOthersWrite) {
  const Scratch scratch;
  // Unaligned data, padding, keys in another order, escapes in names, an empty file.
  spill(scratch / "a", file_bytes("{\"b\":{\"data_offsets\":[1,5],\"shape\":[1],\"dtype\":\"F32\"},\"\\u0061\":{\"dtype\":\"U8\",\"shape\":"
                                  "[1],\"data_offsets\":[0,1]}}   ",
                                  5));
  const SafetensorsFile file(scratch / "a");
  EXPECT_EQ(file.at("a").begin, 0U);
  std::vector<float> value(1);
  file.read("b", std::span(value));
  EXPECT_NE(value[0], 0.0F);
  spill(scratch / "empty", file_bytes("{}", 0));
  EXPECT_TRUE(SafetensorsFile(scratch / "empty").tensors().empty());
}

TEST(Safetensors, WritingFailsWithoutATraceAtEveryCall) {
  const Scratch scratch;
  const auto path = scratch / "model.safetensors";
  set_file_hook([](const FileCall&) { return FileFault::none; });
  write_safetensors(path, Small{}.tensors());
  const auto calls = file_calls();
  const auto old = slurp(path);
  Small other;
  other.weight[0] = 100;
  for (std::uint64_t k = 1; k <= calls; ++k) {
    set_file_hook(testing::fault_at(k, FileFault::no_space));
    EXPECT_NE(error_of(ExitCode::storage, [&] { write_safetensors(path, other.tensors()); }), "");
    set_file_hook({});
    EXPECT_EQ(slurp(path) == old, k < calls) << k;
    EXPECT_FALSE(std::filesystem::exists(path + ".tmp")) << k;
    spill(path, old);
  }
}

TEST(Safetensors, RefusesProducersThatDoNotKeepTheirWord) {
  const Scratch scratch;
  const std::vector<FileTensor> tensors = {{"w", FileDType::f32, {2}, 0, 0}};
  const std::vector<std::byte> bytes(12);
  for (const std::size_t given : {4U, 12U})
    EXPECT_TRUE(contains(error_of(ExitCode::internal,
                                  [&] {
                                    write_safetensors(scratch / "f", tensors, {}, [&](const FileTensor&, const ByteSink& sink) {
                                      sink(std::span(bytes).first(given));
                                    });
                                  }),
                         "'w' gave"));
  EXPECT_NE(error_of(ExitCode::internal, [&] { write_safetensors(scratch / "f", {tensors[0], tensors[0]}, {}, {}); }), "");
}

}  // namespace
}  // namespace millrace::runtime
