#include "runtime/data/token_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string header(std::int32_t magic, std::int32_t version, std::int32_t count) {
  std::vector<std::int32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return bytes_of(words);
}

std::vector<std::int32_t> all_tokens(const TokenFile& file) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

TEST(TokenFile, ReadsLlmcFilesOf16Bits) {
  const TemporaryFolder folder;
  const TokenFile file(folder.write("a.bin", header(20240520, 1, 3) + bytes_of<std::uint16_t>({5, 50256, 7})), 50257);
  EXPECT_EQ(file.format(), TokenFormat::llmc_u16);
  EXPECT_EQ(all_tokens(file), (std::vector<std::int32_t>{5, 50256, 7}));
}

TEST(TokenFile, ReadsLlmcFilesOf32Bits) {
  const TemporaryFolder folder;
  const TokenFile file(folder.write("a.bin", header(20240801, 7, 2) + bytes_of<std::uint32_t>({128000, 1})), 128256);
  EXPECT_EQ(file.format(), TokenFormat::llmc_u32);
  EXPECT_EQ(all_tokens(file), (std::vector<std::int32_t>{128000, 1}));
}

TEST(TokenFile, WritesNothingBeyondWhatIsAskedFor) {
  const TemporaryFolder folder;
  const TokenFile file(folder.write("a.bin", header(20240520, 1, 5) + bytes_of<std::uint16_t>({5, 6, 7, 8, 9})), 10);
  std::vector<std::int32_t> tokens(5, -7);
  file.read(1, std::span(tokens).first(3));
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{6, 7, 8, -7, -7}));
  file.read(4, std::span(tokens).first(0));
  EXPECT_EQ(tokens[0], 6);
}

TEST(TokenFile, ReadsNanogptFiles) {
  const TemporaryFolder folder;
  for (const std::vector<std::uint16_t>& tokens : {std::vector<std::uint16_t>{9}, {1, 2, 3, 65535}}) {
    const TokenFile file(folder.write("a.bin", bytes_of(tokens)), 65536);
    EXPECT_EQ(file.format(), TokenFormat::nanogpt_u16);
    EXPECT_EQ(all_tokens(file), std::vector<std::int32_t>(tokens.begin(), tokens.end()));
  }
}

TEST(TokenFile, FindsATokenInARange) {
  const TemporaryFolder folder;
  const TokenFile file(folder.write("a.bin", bytes_of<std::uint16_t>({4, 9, 4, 4, 9})), 10);
  EXPECT_EQ(file.find(9, 0, 5), 1);
  EXPECT_EQ(file.find(9, 2, 5), 4);
  EXPECT_EQ(file.find(9, 2, 4), 4);  // not in the range, so the range's end
  EXPECT_EQ(file.find(-1, 0, 5), 5);
}

TEST(TokenFile, TokensAreNotMistakenForText) {
  const TemporaryFolder folder;
  // Ids whose bytes are letters, but too few of them to tell; many with one that is no character; bytes that are no UTF-8.
  std::vector<std::uint16_t> ids(40, 0x6161);
  EXPECT_EQ(TokenFile(folder.write("few.bin", bytes_of(std::vector<std::uint16_t>(8, 0x6161))), 65536).size(), 8);
  EXPECT_THROW(TokenFile(folder.write("text.bin", bytes_of(ids)), 65536), Error);
  for (const std::uint16_t id : {0x0061, 0x6180, 0xc361, 0x7f61}) {
    ids[20] = id;
    EXPECT_EQ(TokenFile(folder.write("many.bin", bytes_of(ids)), 65536).size(), 40) << id;
  }
}

struct HostileFile {
  const char* name;
  std::string bytes;
  std::string says;
};

TEST(TokenFile, RefusesHostileFiles) {
  const std::string three = bytes_of<std::uint16_t>({1, 2, 3});
  const std::vector<HostileFile> table = {
      {"empty", "", "empty, expected tokens"},
      {"odd", "abc", "3 bytes, expected an even number"},
      {"one byte", "a", "1 byte, expected an even number"},
      {"odd text", "A text\n", "expected an even number (16-bit tokens without a header, as nanoGPT writes); it is a text: `millrace data"},
      {"text", "Once upon a time there was a na\xc3\xafve file, which was not of tokens!!\n", "a text, not tokens; expected a .bin file"},
      {"header cut off", header(20240520, 1, 3).substr(0, 1000), "expected llm.c's header"},
      {"magic alone", header(20240801, 7, 3).substr(0, 4), "expected llm.c's header"},
      {"wrong version", header(20240520, 7, 3) + three, "version 7, expected 1"},
      {"wrong version of 32 bits", header(20240801, 1, 3) + three, "version 1, expected 7"},
      {"no token", header(20240520, 1, 0), "count of 0 tokens"},
      {"negative count", header(20240520, 1, -5) + three, "count of -5 tokens"},
      {"too short", header(20240520, 1, 4) + three, "1030 bytes, expected 1032 for 4 tokens (cut off while copying?)"},
      {"too long", header(20240520, 1, 2) + three, "1030 bytes, expected 1028 for 2 tokens (appended to"},
      {"count beyond 32 bits of bytes", header(20240801, 7, 2147483647) + three, "expected 8589935612"},
      {"16 bits said to be 32", header(20240801, 7, 3) + three, "expected 1036 for 3 tokens"},
      {"token beyond the vocabulary", bytes_of<std::uint16_t>({1, 99, 100, 2}), "token 2 is 100, the model's vocabulary has 100"},
      {"token beyond 31 bits", header(20240801, 7, 1) + bytes_of<std::uint32_t>({4294967295U}), "token 0 is 4294967295"},
      {"llm.c model", header(20240326, 3, 1024), "an llm.c model, not tokens"},
      {"llm.c tokenizer", header(20240328, 1, 50257), "an llm.c tokenizer, not tokens"},
      {"evaluation file", header(20240522, 1, 10), "multiple-choice evaluation"},
      {"numpy", std::string("\x93NUMPY\x01\x00", 8), "a NumPy array"},
      {"pytorch", std::string("PK\x03\x04....", 8), "PyTorch checkpoint"},
      {"gzip", std::string("\x1f\x8b\x08\x00", 4), "gzip"},
  };
  const TemporaryFolder folder;
  for (const HostileFile& hostile : table) {
    SCOPED_TRACE(hostile.name);
    const std::string path = folder.write("hostile.bin", hostile.bytes);
    expect_error([&] { const TokenFile file(path, 100); }, ExitCode::data, {path, hostile.says});
  }
}

TEST(TokenFile, TakesATokenForNoArchive) {
  const TemporaryFolder folder;
  // begins with gzip's magic number, but not with a deflate stream
  EXPECT_EQ(TokenFile(folder.write("a.bin", bytes_of<std::uint16_t>({0x8b1f, 7})), 65536).size(), 2);
}

TEST(TokenFile, ChecksTokensThatTheSampleMissed) {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> tokens(4096, 1);
  tokens[1025] = 300;  // between two sampled tokens
  const TokenFile file(folder.write("a.bin", bytes_of(tokens)), 257);
  std::vector<std::int32_t> window(10);
  file.read(1000, window);
  expect_error([&] { file.read(1020, window); }, ExitCode::data, {"a.bin", "token 1025 is 300, the model's vocabulary has 257"});
}

TEST(TokenFile, RefusesWhatCannotBeMapped) {
  const TemporaryFolder folder;
  expect_error([&] { const TokenFile file(folder / "nothing", 100); }, ExitCode::data, {"nothing", "No such file"});
  expect_error([&] { const TokenFile file(folder.path(), 100); }, ExitCode::data, {"not a regular file"});
}

}  // namespace
}  // namespace millrace::runtime
