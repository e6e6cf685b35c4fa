#include "runtime/io/hash.hpp"

#include <cstring>
#include <numeric>

#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime {
namespace {

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t index = 0; index < count; ++index) bytes[index] = static_cast<std::byte>(index * 31 + index / 257);
  return bytes;
}

TEST(Hash, IsXxh128) {
  EXPECT_EQ(hash_of(std::string_view("")).hex(), "99aa06d3014798d86001c324468d497f");  // xxh128sum of an empty file
  const auto hash = hash_of(std::string_view("millrace"));
  EXPECT_EQ(Hash128::from_hex(hash.hex()), hash);
  for (const char* bad : {"", "99aa06d3014798d86001c324468d497", "99AA06d3014798d86001c324468d497f", "zzaa06d3014798d86001c324468d497f"})
    EXPECT_NE(testing::error_of(ExitCode::checkpoint, [&] { (void)Hash128::from_hex(bad); }), "");
}

TEST(Hash, StreamsInAnyPieces) {
  const auto bytes = some_bytes(100'000);
  StreamHash stream;
  for (std::size_t piece : {1, 7, 1000, 4096, 94'896}) {
    static std::size_t offset = 0;
    stream.update(std::span(bytes).subspan(offset, piece));
    offset += piece;
  }
  EXPECT_EQ(stream.digest(), hash_of(std::span<const std::byte>(bytes)));
}

TEST(Hash, ChunksAreFourMebibytes) {
  const auto bytes = some_bytes(hash_chunk_bytes * 2 + 5);
  const auto chunks = chunk_hashes(bytes);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[2], hash_of(std::span(bytes).last(5)));
  std::vector<std::byte> copy(bytes.size());
  EXPECT_EQ(copy_with_hashes(bytes, copy), chunks);
  EXPECT_EQ(copy, bytes);
  EXPECT_TRUE(chunk_hashes({}).empty());
  for (const std::size_t chunk_count : {0, 1, 2}) {  // whole chunks, behind which no empty one follows
    const auto whole = std::span(bytes).first(hash_chunk_bytes * chunk_count);
    EXPECT_EQ(chunk_hashes(whole).size(), chunk_count);
    EXPECT_EQ(copy_with_hashes(whole, std::span(copy).first(whole.size())), chunk_hashes(whole));
  }
}

TEST(StateHash, DoesNotDependOnWhoHoldsWhat) {
  const auto bytes = some_bytes(64);
  const std::int64_t shape[] = {4, 4};
  StateHash whole, left, right;
  whole.add("b", "F32", shape, bytes);
  whole.add("a", "F32", shape, std::span(bytes).first(16));
  left.add("a", "F32", shape, std::span(bytes).first(16));
  right.add("b", "F32", shape, bytes);
  StateHash merged;
  merged.merge(StateHash::from_text(right.text()));
  merged.merge(StateHash::from_text(left.text()));
  EXPECT_EQ(merged.digest(), whole.digest());
  EXPECT_EQ(merged.size(), 2U);
}

TEST(StateHash, SeesNameDTypeShapeAndBytes) {
  const auto bytes = some_bytes(64);
  const std::int64_t shape[] = {4, 4};
  const std::int64_t other_shape[] = {16};
  const auto digest = [&](const char* name, const char* dtype, std::span<const std::int64_t> sizes, std::span<const std::byte> data) {
    StateHash hash;
    hash.add(name, dtype, sizes, data);
    return hash.digest();
  };
  const auto reference = digest("a", "F32", shape, bytes);
  EXPECT_NE(digest("b", "F32", shape, bytes), reference);
  EXPECT_NE(digest("a", "I32", shape, bytes), reference);
  EXPECT_NE(digest("a", "F32", other_shape, bytes), reference);
  EXPECT_NE(digest("a", "F32", shape, std::span(bytes).first(63)), reference);
}

TEST(StateHash, ReplicasMustAgree) {
  const auto bytes = some_bytes(64);
  StateHash one, same, other;
  one.add("a", "F32", {}, bytes);
  same.add("a", "F32", {}, bytes);
  other.add("a", "F32", {}, std::span(bytes).first(3));
  one.merge(same);
  EXPECT_EQ(one.size(), 1U);
  EXPECT_TRUE(testing::contains(testing::error_of(ExitCode::internal, [&] { one.merge(other); }), "'a' differ"));
  EXPECT_NE(testing::error_of(ExitCode::internal, [&] { one.add("a", "F32", {}, bytes); }), "");
}

}  // namespace
}  // namespace millrace::runtime
