#include "runtime/data/tokenizers/sentence_piece_model.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime {
namespace {

/// Iterates over the fields of a message in protobuf's wire format. A damaged message ends early.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  /// Advances to the next field; false at the end.
  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t key = varint();
    field_ = static_cast<int>(key >> 3 & 0xffff);
    number_ = 0;
    text_ = {};
    switch (key & 7) {
      case 0:
        number_ = varint();
        return true;
      case 1:
        return take(8);
      case 2:
        return take(varint());
      case 5:
        if (!take(4)) return false;
        number_ = word(text_);
        return true;
      default:
        return false;
    }
  }
  [[nodiscard]] int field() const { return field_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }  // a varint or fixed32
  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  bool take(std::uint64_t count) {
    if (count > bytes_.size()) return false;
    text_ = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return true;
  }
  static std::uint32_t word(std::string_view four) {
    std::uint32_t value = 0;
    std::memcpy(&value, four.data(), sizeof value);
    return value;
  }

  std::string_view bytes_, text_;
  int field_ = 0;
  std::uint64_t number_ = 0;
};

enum PieceType : std::uint64_t { normal = 1, unknown = 2, control = 3, byte = 6 };

struct Piece {
  std::string text;
  float score = 0;
  std::uint64_t type = normal;
};

/// The fields of a model that matter here; fields that are absent have the format's defaults.
struct Model {
  std::vector<Piece> pieces;
  bool byte_pairs = false;
  bool space_behind = false;
  bool plain = true;  // the only normalisation concerns spaces
  bool prefix = true;
};

Piece read_piece(std::string_view bytes) {
  Piece piece;
  for (Message message(bytes); message.next();) {
    if (message.field() == 1) piece.text = message.text();
    if (message.field() == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(message.number()));
    if (message.field() == 3) piece.type = message.number();
  }
  return piece;
}

Model read_model(std::string_view bytes) {
  Model model;
  bool drops_spaces = true;
  for (Message message(bytes); message.next();) {
    Message part(message.text());
    if (message.field() == 1) model.pieces.push_back(read_piece(message.text()));
    while (message.field() == 2 && part.next()) {  // TrainerSpec
      if (part.field() == 3) model.byte_pairs = part.number() == 2;
      if (part.field() == 24) model.space_behind = part.number() != 0;
    }
    while (message.field() == 3 && part.next()) {  // NormalizerSpec
      if (part.field() == 2) model.plain = model.plain && part.text().empty();
      if (part.field() == 3) model.prefix = part.number() != 0;
      if (part.field() == 4) drops_spaces = part.number() != 0;
      if (part.field() == 5) model.plain = model.plain && part.number() != 0;
    }
  }
  model.plain = model.plain && !drops_spaces;
  return model;
}

/// Whether our merging gives the same result as the library.
bool is_simple(const Model& model) {
  if (!model.byte_pairs || model.space_behind || !model.plain) return false;
  std::vector<float> scores;
  std::size_t bytes = 0;
  for (const Piece& piece : model.pieces) {
    if (piece.type != normal && piece.type != unknown && piece.type != control && piece.type != byte) return false;
    if (piece.type == byte) ++bytes;
    if (piece.type == normal && character_at(piece.text, 0).length < piece.text.size()) scores.push_back(piece.score);
    if (end_of_valid(piece.text, 0) != piece.text.size() || piece.text.empty()) return false;
  }
  std::sort(scores.begin(), scores.end());
  const bool ordered = std::all_of(scores.begin(), scores.end(), [](float score) { return score == score; });
  return ordered && bytes == 256 && std::adjacent_find(scores.begin(), scores.end()) == scores.end();
}

using PieceIds = std::unordered_map<std::string_view, std::int32_t>;

struct Merge {
  std::int32_t left, right, merged;
};

/// Every way to join two pieces into a third, the best result first.
std::vector<Merge> merges_of(const std::vector<Piece>& pieces, const PieceIds& ids) {
  std::vector<Merge> merges;
  for (const auto& [text, id] : ids) {
    for (std::size_t cut = character_at(text, 0).length; cut < text.size(); cut += character_at(text, cut).length) {
      const auto left = ids.find(text.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(text.substr(cut));
      if (right != ids.end()) merges.push_back({left->second, right->second, id});
    }
  }
  const auto score = [&](const Merge& merge) { return pieces[static_cast<std::size_t>(merge.merged)].score; };
  std::sort(merges.begin(), merges.end(), [&](const Merge& a, const Merge& b) { return score(a) > score(b); });
  return merges;
}

}  // namespace

std::optional<BytePairModel> byte_pairs_of_sentence_piece(std::string_view bytes, const std::string& where) {
  constexpr std::size_t max_bytes = 512;  // bytes of a piece; for longer ones it would take long to enumerate the cuts
  const Model read = read_model(bytes);
  if (!is_simple(read)) return std::nullopt;
  PieceIds ids;
  for (std::size_t id = 0; id < read.pieces.size(); ++id) {
    const Piece& piece = read.pieces[id];
    if (piece.type != normal) continue;
    if (piece.text.size() > max_bytes || !ids.emplace(piece.text, static_cast<std::int32_t>(id)).second) return std::nullopt;
  }
  const std::vector<Merge> merges = merges_of(read.pieces, ids);
  BytePairModel model(merges.size());
  model.where = where;
  std::int32_t rank = -1;
  std::int32_t merged = -1;
  for (const Merge& merge : merges) {  // all ways to make the same piece share a rank
    if (merge.merged != std::exchange(merged, merge.merged)) ++rank;
    static_cast<void>(model.pairs.add(merge.left, merge.right, rank, merge.merged));
  }
  model.spaces.replace = true;
  model.spaces.prepend = read.prefix ? SpaceRule::Prepend::always : SpaceRule::Prepend::never;
  model.spaces.strip_first = read.prefix;
  model.spaces.cut_at_words = true;
  for (const auto& [text, id] : ids) {
    const Character first = character_at(text, 0);
    if (first.length == text.size()) model.characters.emplace(first.code, id);
    if (has_word_border(text)) model.spaces.cut_at_words = false;
  }
  if (model.characters.empty()) return std::nullopt;
  return model;
}

}  // namespace millrace::runtime
