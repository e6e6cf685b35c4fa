#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/data/megatron_index.hpp"
#include "runtime/data/token_file.hpp"
#include "runtime/data/token_writer.hpp"
#include "runtime/io/fault.hpp"
#include "runtime/io/file_system.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

/// An index written by hand, field by field.
struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::uint64_t sequences = 3, borders = 3;
  std::string lengths = raw<std::int32_t>({2, 0, 3});
  std::string offsets = raw<std::int64_t>({0, 4, 4});
  std::string documents = raw<std::int64_t>({0, 2, 3});
  std::string tail = {};

  [[nodiscard]] std::string bytes() const {
    return magic + raw({version}) + raw({code}) + raw({sequences}) + raw({borders}) + lengths + offsets + documents + tail;
  }
};

const std::string five = raw<std::uint16_t>({10, 11, 12, 13, 14});

TEST(Megatron, ReadsSequencesAsDocuments) {
  const TemporaryFolder folder;
  folder.write("a.idx", Index().bytes());
  const TokenFile file(folder.write("a.bin", five), 100);
  EXPECT_EQ(file.format(), TokenFormat::megatron);
  Ids ids(5);
  file.read(0, ids);
  EXPECT_EQ(ids, (Ids{10, 11, 12, 13, 14}));
  EXPECT_EQ(file.index()->documents(), 2);
  EXPECT_EQ(file.index()->sequences(), 3);
  EXPECT_EQ(file.find_sequence_end(0, 5), 1);
  EXPECT_EQ(file.find_sequence_end(1, 5), 1);
  EXPECT_EQ(file.find_sequence_end(2, 5), 4);
  EXPECT_EQ(file.find_sequence_end(2, 4), 4);
  EXPECT_EQ(file.find_sequence_end(5, 5), 5);
}

TEST(Megatron, ReadsOtherWidthsAndModes) {
  const TemporaryFolder folder;
  Index index;
  index.code = 4;
  index.offsets = raw<std::int64_t>({0, 8, 8});
  index.tail = std::string(3, '\1');
  folder.write("a.idx", index.bytes());
  Ids ids(5);
  TokenFile(folder.write("a.bin", raw<std::int32_t>({70000, 1, 2, 3, 4})), 70001).read(0, ids);
  EXPECT_EQ(ids, (Ids{70000, 1, 2, 3, 4}));
  index.code = 1;
  index.offsets = raw<std::int64_t>({0, 2, 2});
  folder.write("b.idx", index.bytes());
  TokenFile(folder.write("b.bin", "\xff\1\2\3\4"), 256).read(0, ids);
  EXPECT_EQ(ids, (Ids{255, 1, 2, 3, 4}));
}

TEST(Megatron, DocumentsMayBeEmpty) {
  const TemporaryFolder folder;
  Index index;
  index.borders = 5;
  index.documents = raw<std::int64_t>({0, 0, 2, 3, 3});
  folder.write("a.idx", index.bytes());
  EXPECT_EQ(TokenFile(folder.write("a.bin", five), 100).index()->documents(), 4);
}

TEST(Megatron, RefusesWhatDoesNotFit) {
  const auto refused = [](auto change, const std::vector<std::string>& parts, const std::string& bin = five) {
    const TemporaryFolder folder;
    Index index;
    change(index);
    folder.write("a.idx", index.bytes());
    auto all = parts;
    all.emplace_back("a.idx");
    expect_error([&] { TokenFile(folder.write("a.bin", bin), 100); }, ExitCode::data, all);
  };
  refused([](Index& index) { index.magic = "MMIDIDX\1"; }, {"not an index"});
  refused([](Index& index) { index.version = 2; }, {"version 2"});
  refused([](Index& index) { index.code = 7; }, {"element code 7"});
  refused([](Index& index) { index.sequences = ~std::uint64_t{0}; }, {"too few"});
  refused([](Index& index) { index.borders = std::uint64_t{1} << 62; }, {"too few"});
  refused([](Index& index) { index.tail = "x"; }, {"bytes, expected 94"});
  refused([](Index& index) { index.documents.pop_back(); }, {"93 bytes"});
  refused([](Index& index) { index.lengths = raw<std::int32_t>({2, -1, 3}); }, {"sequence 1 has -1 tokens"});
  refused([](Index& index) { index.offsets = raw<std::int64_t>({0, 4, 6}); }, {"sequence 2 begins at byte 6, expected 4"});
  refused([](Index& index) { index.offsets = raw<std::int64_t>({0, -8, 4}); }, {"sequence 1"});
  refused([](Index&) {}, {"5 tokens", "12 bytes"}, five + "ab");
  refused([](Index& index) { index.documents = raw<std::int64_t>({0, 4, 3}); }, {"border 1", "4"});
  refused([](Index& index) { index.documents = raw<std::int64_t>({1, 2, 3}); }, {"border 0"});
  refused([](Index& index) { index.documents = raw<std::int64_t>({0, 2, 2}); }, {"border 2"});
  refused([](Index& index) { index.borders = 0, index.documents.clear(); }, {"no document borders"});
}

TEST(Megatron, IsTrainingDataByItsPrefix) {
  const TemporaryFolder folder;
  folder.write("a.idx", Index().bytes());
  folder.write("a.bin", five);
  for (const char* name : {"a", "a.bin"}) {
    DataConfig config;
    config.tokens = {folder / name};
    config.held_out = 0;
    const Dataset data = open_dataset(config, 100);
    EXPECT_EQ(data.sources.front().stream->size(), 5);
    EXPECT_EQ(data.sources.front().stream->next_border(0, 5), 1);
    EXPECT_EQ(data.sources.front().stream->next_border(2, 5), 4);
    config.separator = 12;  // a separator within a sequence is a border too
    EXPECT_EQ(open_dataset(config, 100).sources.front().stream->next_border(2, 5), 2);
  }
  expect_error([&] { (void)open_dataset({.tokens = {folder / "a.idx"}}, 100); }, ExitCode::data, {"index of Megatron", ".bin"});
}

TEST(Megatron, IsOtherDataUnderAnotherIndexOrWithoutOne) {
  const TemporaryFolder folder;
  folder.write("a.bin", five);
  const auto fingerprint = [&] { return open_dataset({.tokens = {folder / "a.bin"}, .held_out = 0}, 65536).fingerprint; };
  Index index;
  folder.write("a.idx", index.bytes());
  const auto whole = fingerprint();
  EXPECT_EQ(fingerprint(), whole);
  index.documents = raw<std::int64_t>({0, 1, 3});
  folder.write("a.idx", index.bytes());
  EXPECT_NE(fingerprint(), whole);
  std::filesystem::remove(folder / "a.idx");
  EXPECT_NE(fingerprint(), whole);
}

// -- writing ------------------------------------------------------------------------------------------------------------------------------

void write(TokenTarget target, const std::string& path, std::int64_t vocabulary, const std::vector<Ids>& documents) {
  TokenWriter writer(target, path, vocabulary);
  for (const Ids& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.finish();
}

Ids read_all(const TokenFile& file) {
  Ids ids(static_cast<std::size_t>(file.size()));
  file.read(0, ids);
  return ids;
}

TEST(TokenWriter, WritesWhatIsReadBack) {
  for (const std::int64_t vocabulary : {300, 65499, 65500, 65536, 200000}) {
    const TemporaryFolder folder;
    const auto last = static_cast<std::int32_t>(vocabulary - 1);
    write(TokenTarget::megatron, folder / "m", vocabulary, {{1, last}, {}, {7}});
    const TokenFile megatron(folder / "m.bin", vocabulary);
    EXPECT_EQ(megatron.index()->width(), vocabulary < 65500 ? 2 : 4);
    EXPECT_EQ(read_all(megatron), (Ids{1, last, 7}));
    EXPECT_EQ(megatron.index()->documents(), 2);
    EXPECT_EQ(megatron.find_sequence_end(0, 3), 1);
    write(TokenTarget::llmc, folder / "l.bin", vocabulary, {{1, last}, {}, {7}});
    const TokenFile llmc(folder / "l.bin", vocabulary);
    EXPECT_EQ(llmc.format(), vocabulary <= 65536 ? TokenFormat::llmc_u16 : TokenFormat::llmc_u32);
    EXPECT_EQ(read_all(llmc), (Ids{1, last, 7}));
    EXPECT_EQ(list_directory(folder.path().string()), (std::vector<std::string>{"l.bin", "m.bin", "m.idx"}));
  }
}

TEST(TokenWriter, WritesTheIndexByteForByte) {
  const TemporaryFolder folder;
  write(TokenTarget::megatron, folder / "m", 100, {{1, 2}, {3, 4, 5}});
  Index index;
  index.sequences = 2;
  index.lengths = raw<std::int32_t>({2, 3});
  index.offsets = raw<std::int64_t>({0, 4});
  index.documents = raw<std::int64_t>({0, 1, 2});
  EXPECT_EQ(read_text_file(folder / "m.idx", 1 << 20, ExitCode::data), index.bytes());
}

TEST(TokenWriter, ManyDocumentsAndLongOnes) {
  const TemporaryFolder folder;
  std::vector<Ids> documents(100000, Ids{1, 2, 3});
  documents.emplace_back(300000, 9);
  write(TokenTarget::megatron, folder / "m", 100, documents);
  const TokenFile file(folder / "m.bin", 100);
  EXPECT_EQ(file.size(), 600000);
  EXPECT_EQ(file.index()->sequences(), 100001);
  EXPECT_EQ(file.find_sequence_end(300000, 600000), 599999);
}

TEST(TokenWriter, LeavesNothingBehindWhereItFails) {
  const TemporaryFolder folder;
  expect_error([&] { write(TokenTarget::megatron, folder / "m", 100, {{1, 100}}); }, ExitCode::data, {"token 1 of document 0 is 100"});
  expect_error(
      [&] {
        write(TokenTarget::megatron, folder / "m", 100, {{1}, {2}, {3, 4, 5, 100}});
      },
      ExitCode::data, {"token 3 of document 2 is 100"});
  expect_error([&] { write(TokenTarget::llmc, folder / "m", 100, {{-1}}); }, ExitCode::data, {"-1"});
  expect_error([&] { write(TokenTarget::megatron, folder / "m", 100, {{}}); }, ExitCode::data, {"no tokens"});
  expect_error([&] { write(TokenTarget::llmc, folder / "none/m", 100, {{1}}); }, ExitCode::storage, {"none/m"});
  EXPECT_TRUE(list_directory(folder.path().string()).empty());
}

TEST(TokenWriter, RefusesAFileThatIsBeingWritten) {
  const TemporaryFolder folder;
  TokenWriter first(TokenTarget::megatron, folder / "m", 100);
  first.append(Ids{1, 2});
  expect_error([&] { TokenWriter(TokenTarget::megatron, folder / "m", 100); }, ExitCode::start, {"m.bin.partial", "another process"});
  first.append(Ids{3});
  first.finish();
  EXPECT_EQ(read_all(TokenFile(folder / "m.bin", 100)), (Ids{1, 2, 3}));
  folder.write("n.bin.partial", "what a killed process left");
  write(TokenTarget::megatron, folder / "n", 100, {{4}});
  EXPECT_EQ(read_all(TokenFile(folder / "n.bin", 100)), (Ids{4}));
}

// Every disk call fails once: the result is either an error and no .bin, or complete files.
TEST(TokenWriter, FullDisksLeaveNoHalfFiles) {
  for (const auto target : {TokenTarget::megatron, TokenTarget::llmc}) {
    std::uint64_t calls = 0;
    for (std::uint64_t failing = 0; failing <= calls; ++failing) {  // 0: no call fails, to count the calls
      const TemporaryFolder folder;
      const std::string path = folder / (target == TokenTarget::llmc ? "m.bin" : "m");
      set_file_hook([&](const FileCall& call) { return call.number == failing ? FileFault::no_space : FileFault::none; });
      bool failed = false;
      try {
        write(target, path, 100, {{1, 2}, {3}});
      } catch (const Error& error) {
        failed = true;
        EXPECT_EQ(error.code(), ExitCode::storage) << error.what();
      }
      if (failing == 0) calls = file_calls();
      set_file_hook({});
      const bool there = kind_of(folder / "m.bin") == PathKind::file;
      if (there) {
        EXPECT_EQ(TokenFile(folder / "m.bin", 100).size(), 3);
      }
      EXPECT_EQ(failing == 0, !failed) << failing;
    }
    EXPECT_GT(calls, 5u);
  }
}

}  // namespace
}  // namespace millrace::runtime
