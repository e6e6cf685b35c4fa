#include "runtime/data/tokenizers/sentence_piece_model.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "runtime/data/tokenizers/sentence_piece.hpp"

namespace millrace::runtime {
namespace {

// -- protobuf's wire format, written by hand

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number(unsigned field, std::uint64_t value) { return varint(field << 3) + varint(value); }
std::string text(unsigned field, const std::string& bytes) { return varint(field << 3 | 2) + varint(bytes.size()) + bytes; }
std::string fixed(unsigned field, float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return varint(field << 3 | 5) + bytes;
}
std::string piece(const std::string& spelled, float score, std::uint64_t type = 1) {
  return text(1, text(1, spelled) + fixed(2, score) + number(3, type));
}

std::string byte_pieces(int count) {
  std::string pieces;
  for (int byte = 0; byte < count; ++byte) {
    pieces += piece(fmt::format("<0x{:02X}>", byte), 0, 6);
  }
  return pieces;
}

const std::string space = "\u2581";
const std::string special = piece("<s>", 0, 3) + piece("<unk>", 0, 2) + piece("</s>", 0, 3);
const std::string letters = piece("a", -3) + piece("b", -4) + piece(space, -5) + piece("ab", -1) + piece(space + "a", -2);
const std::string pairs = text(2, number(3, 2) + number(35, 1));  // TrainerSpec: byte pairs, unknown text as bytes
const std::string spaces_stay = text(3, number(4, 0));            // NormalizerSpec

std::string with(const std::string& more) { return special + byte_pieces(256) + letters + pairs + spaces_stay + more; }
std::optional<BytePairModel> read(const std::string& bytes) { return byte_pairs_of_sentence_piece(bytes, "f.model"); }

TEST(SentencePieceModel, IsReadAsBytePairs) {
  const auto model = read(with(""));
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->characters.size(), 3U);
  EXPECT_TRUE(model->spaces.replace && model->spaces.strip_first && model->spaces.cut_at_words);
  EXPECT_EQ(model->spaces.prepend, SpaceRule::Prepend::always);
  EXPECT_EQ(model->where, "f.model");
  const auto bare = read(with(text(3, number(3, 0))));
  ASSERT_TRUE(bare.has_value());
  EXPECT_FALSE(bare->spaces.strip_first);
  EXPECT_EQ(bare->spaces.prepend, SpaceRule::Prepend::never);
  EXPECT_FALSE(read(with(piece("b" + space + "a", -6)))->spaces.cut_at_words) << "a piece that goes over the border of words";
  EXPECT_TRUE(read(with(piece(space + space + "a", -6)))->spaces.cut_at_words);
}

TEST(SentencePieceModel, FieldsThatDoNotMatterArePassedOver) {
  EXPECT_TRUE(read(with(varint(77 << 3 | 1) + "12345678" + fixed(78, 1) + number(79, 300) + text(80, "x"))).has_value());
  EXPECT_TRUE(read(with(varint(77 << 3 | 1) + "1234")).has_value()) << "a field that is cut off ends the message";
  EXPECT_TRUE(read(with(varint(77 << 3 | 5) + "12")).has_value());
  EXPECT_TRUE(read(with(varint(77 << 3 | 2) + varint(9) + "12345678")).has_value());
  EXPECT_FALSE(read(with(varint(77 << 3 | 2) + varint(8) + "12345678" + text(2, number(3, 1)))).has_value()) << "what follows counts";
}

TEST(SentencePieceModel, IsLeftToTheLibraryWhereTheTwoCouldDiffer) {
  const std::string nan = piece("ba", std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(read(with(piece("ba", -6))).has_value());
  EXPECT_FALSE(read(with(piece("ba", -1))).has_value()) << "equal scores";
  EXPECT_TRUE(read(with(piece("c", -1))).has_value()) << "of characters they do not matter";
  EXPECT_FALSE(read(with(nan)).has_value());
  EXPECT_FALSE(read(with(piece("ba", -6, 4))).has_value()) << "defined by the user";
  EXPECT_FALSE(read(with(piece("ba", -6, 5))).has_value()) << "not used";
  EXPECT_FALSE(read(with(piece("", -6))).has_value());
  EXPECT_FALSE(read(with(piece("b\xff", -6))).has_value());
  EXPECT_FALSE(read(with(piece("ab", -6))).has_value()) << "a piece twice";
  EXPECT_TRUE(read(with(piece(std::string(512, 'a'), -6))).has_value());
  EXPECT_FALSE(read(with(piece(std::string(513, 'a'), -6))).has_value());
  EXPECT_FALSE(read(with(piece("<0x00>", 0, 6))).has_value()) << "257 pieces of bytes";
  EXPECT_FALSE(read(special + byte_pieces(255) + letters + pairs + spaces_stay).has_value());
  EXPECT_FALSE(read(special + byte_pieces(256) + pairs + spaces_stay).has_value()) << "no characters";
  EXPECT_FALSE(read(special + byte_pieces(256) + letters + spaces_stay).has_value()) << "unigram, which is the default";
  EXPECT_FALSE(read(special + byte_pieces(256) + letters + pairs).has_value()) << "spaces are dropped by default";
  EXPECT_FALSE(read(with(text(2, number(24, 1)))).has_value()) << "the space behind a word";
  EXPECT_FALSE(read(with(text(3, text(2, "rules")))).has_value()) << "normalised by rules";
  EXPECT_FALSE(read(with(text(3, number(5, 0)))).has_value()) << "spaces as they are";
  EXPECT_FALSE(read(with(text(3, number(4, 1)))).has_value());
}

/// The library gives the same ids: a user-defined piece, which occurs in no text, makes us leave the model to the library.
TEST(SentencePieceModel, GivesTheIdsOfTheLibrary) {
  const auto ours = read_sentence_piece(with(""), "f");
  const auto theirs = read_sentence_piece(with(piece("zzz", 0, 4)), "f");
  for (const char* sample : {"ab a b ba", "a", " ab", "abab  ab", "c\xff", "\u4e00 ab"}) {
    std::vector<std::int32_t> left, right;
    ours->encode(sample, left);
    theirs->encode(sample, right);
    EXPECT_EQ(left, right) << sample;
    EXPECT_EQ(ours->decode(left), sample);
  }
  EXPECT_EQ(ours->begin_of_document(), 0) << "0 is an id like others";
  EXPECT_EQ(ours->end_of_document(), 2);
  EXPECT_EQ(theirs->begin_of_document(), 0);
}

}  // namespace
}  // namespace millrace::runtime
