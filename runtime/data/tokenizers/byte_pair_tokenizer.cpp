#include "runtime/data/tokenizers/byte_pair_tokenizer.hpp"

#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/tokenizers/piece_cache.hpp"
#include "runtime/data/tokenizers/unicode.hpp"
#include "runtime/data/tokenizers/utf8.hpp"
#include "runtime/data/tokenizers/workspace_pool.hpp"

namespace millrace::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

struct Workspace {
  PieceCache cache;
  BytePairs::Scratch scratch;
  Ids pieces;
};

/// Encodes one text with a workspace. The steps, each applied to the parts that the one before leaves: separate valid from
/// invalid UTF-8, split at added tokens, normalise, split at added tokens again, split into pieces, merge.
class Encoding {
 public:
  Encoding(const BytePairModel& model, Workspace& workspace, Ids& ids) : model_(model), workspace_(workspace), ids_(ids) {}

  void encode(std::string_view text, bool begins) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t valid = end_of_valid(text, at);
      if (valid > at) encode_valid(text.substr(at, valid - at), begins && at == 0);
      at = end_of_invalid(text, valid);
      if (at > valid) encode_invalid(text.substr(valid, at - valid));
    }
  }

 private:
  /// Calls between(part) for each part between added tokens, and appends the added tokens' ids.
  template <class Between>
  void cut_at(const AddedTokens& tokens, std::string_view text, Between between) {
    std::size_t from = 0;
    while (from < text.size()) {
      const AddedTokens::Found found = tokens.find(text, from);
      const std::size_t end = found.length > 0 ? found.begin : text.size();
      if (end > from) between(text.substr(from, end - from), from == 0);
      if (found.length > 0) ids_.push_back(found.id);
      from = end + found.length;
    }
  }

  [[nodiscard]] std::int32_t id_of(char byte) const {
    const std::int32_t id = model_.bytes[static_cast<unsigned char>(byte)];
    MILLRACE_CHECK(id != no_piece, ExitCode::data, "tokenize", "{}: the vocabulary has no piece for the byte 0x{:02x} of a text",
                   model_.where, static_cast<unsigned>(static_cast<unsigned char>(byte)));
    return id;
  }

  void encode_invalid(std::string_view bytes) {
    if (model_.characters.empty()) return merge(bytes);
    for (const char byte : bytes) ids_.push_back(id_of(byte));
  }

  void encode_valid(std::string_view text, bool begins) {
    cut_at(model_.added, text, [&](std::string_view part, bool first) { normalize(part, begins, first); });
  }

  void normalize(std::string_view text, bool begins, bool first) {
    const bool whole = begins && (first || !model_.spaces.prepend_once);  // whether a space may be prepended
    if (model_.spaces.replace) {
      const std::string written = with_visible_spaces(text, whole);
      return cut_normalized(written, whole);
    }
    if (!model_.nfc || is_surely_nfc(text)) return cut_normalized(text, begins);
    std::string normalized;
    append_nfc(text, normalized);
    cut_normalized(normalized, begins);
  }

  [[nodiscard]] std::string with_visible_spaces(std::string_view text, bool begins) const {
    std::string written;
    written.reserve(text.size() + text.size() / 2);
    const auto prepend = model_.spaces.prepend;
    const bool there = text.starts_with(' ') || text.starts_with(visible_space);
    if (begins && (prepend == SpaceRule::Prepend::always || (prepend == SpaceRule::Prepend::unless_there && !there))) {
      written += visible_space;
    }
    for (const char byte : text) {
      if (byte == ' ') {
        written += visible_space;
      } else {
        written += byte;
      }
    }
    return written;
  }

  void cut_normalized(std::string_view text, bool begins) {
    cut_at(model_.added_normalized, text, [&](std::string_view part, bool) {
      if (!model_.prefix_space || !begins || part.front() == ' ') return split(part, 0);
      split(" " + std::string(part), 0);
    });
  }

  void split(std::string_view text, std::size_t level) {
    if (model_.spaces.replace) return split_words(text);
    if (level == model_.splitters.size()) return encode_piece(text, text.size());
    const Splitter& splitter = *model_.splitters[level];
    const bool last = level + 1 == model_.splitters.size();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = splitter.end_of_piece(text, at);
      if (last) {
        encode_piece(text.substr(at, end - at), text.size() - at);
      } else {
        split(text.substr(at, end - at), level + 1);
      }
      at = end;
    }
  }

  void split_words(std::string_view text) {
    const bool cut_at_each = model_.spaces.cut_at_each;
    std::size_t begin = 0;
    std::size_t after_space = static_cast<std::size_t>(-1);  // end of the newest visible space
    if (cut_at_each || model_.spaces.cut_at_words) {
      for (std::size_t at = text.find(visible_space); at != std::string_view::npos; at = text.find(visible_space, after_space)) {
        const bool cut = at > begin && (cut_at_each || at != after_space);
        if (cut) {
          encode_piece(text.substr(begin, at - begin), text.size() - begin);
          begin = at;
        }
        after_space = at + visible_space.size();
      }
    }
    if (begin < text.size()) encode_piece(text.substr(begin), text.size() - begin);
  }

  /// Encodes one piece. `readable` is the number of bytes from the piece's beginning that belong to the text.
  void encode_piece(std::string_view piece, std::size_t readable) {
    if (piece.size() > PieceCache::max_length) return merge(piece);
    const auto key = PieceCache::key_of(piece, readable);
    PieceCache::Entry& entry = workspace_.cache.at(key);
    if (PieceCache::holds(entry, key)) {
      ids_.insert(ids_.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
      return;
    }
    const std::size_t before = ids_.size();
    merge(piece);
    PieceCache::keep(entry, key, std::span<const std::int32_t>(ids_).subspan(before));
  }

  void merge(std::string_view piece) {
    if (!model_.whole.empty()) {
      const auto found = model_.whole.find(std::string(piece));
      if (found != model_.whole.end()) return ids_.push_back(found->second);
    }
    MILLRACE_CHECK(piece.size() < std::size_t{1} << 30, ExitCode::data, "tokenize",
                   "{}: a piece of {} that no pattern splits, expected at most 1 GiB", model_.where, byte_count(piece.size()));
    Ids& pieces = workspace_.pieces;
    pieces.clear();
    if (model_.characters.empty()) {
      pieces.resize(piece.size());
      for (std::size_t i = 0; i < piece.size(); ++i) pieces[i] = id_of(piece[i]);
    } else {
      append_characters(piece, pieces);
    }
    const std::size_t count = model_.pairs.merge(pieces, workspace_.scratch);
    ids_.insert(ids_.end(), pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(count));
  }

  void append_characters(std::string_view piece, Ids& pieces) const {
    for (std::size_t at = 0; at < piece.size();) {
      const Character character = character_at(piece, at);
      const auto found = model_.characters.find(character.code);
      if (found != model_.characters.end()) {
        pieces.push_back(found->second);
      } else {
        for (const char byte : piece.substr(at, character.length)) pieces.push_back(id_of(byte));
      }
      at += character.length;
    }
  }

  const BytePairModel& model_;
  Workspace& workspace_;
  Ids& ids_;
};

class BytePairTokenizer final : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairModel model) : model_(std::move(model)) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override { run(text, ids, true); }
  void encode_rest(std::string_view text, std::vector<std::int32_t>& ids) const override { run(text, ids, false); }

  void encode_after_special(std::string_view text, std::vector<std::int32_t>& ids) const override {
    run(text, ids, !model_.spaces.prepend_once);
  }
  [[nodiscard]] std::vector<SpecialToken> special_tokens() const override { return model_.special; }

  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id >= 0 && static_cast<std::size_t>(id) < model_.texts.size()) text += model_.texts[static_cast<std::size_t>(id)];
    }
    if (model_.spaces.strip_first && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  [[nodiscard]] std::int64_t vocabulary() const noexcept override { return static_cast<std::int64_t>(model_.texts.size()); }
  [[nodiscard]] std::optional<std::int32_t> begin_of_document() const noexcept override { return model_.begin_of_document; }
  [[nodiscard]] std::optional<std::int32_t> end_of_document() const noexcept override { return model_.end_of_document; }
  [[nodiscard]] std::optional<std::int32_t> padding() const noexcept override { return model_.padding; }
  [[nodiscard]] Spelling spelling(std::int32_t id) const override {
    const auto found = model_.spelled.find(id);
    return found != model_.spelled.end() ? found->second : Tokenizer::spelling(id);
  }

 private:
  void run(std::string_view text, std::vector<std::int32_t>& ids, bool begins) const {
    const auto loan = pool_.borrow();
    Encoding(model_, *loan, ids).encode(text, begins);
  }

  BytePairModel model_;
  mutable WorkspacePool<Workspace> pool_;
};

}  // namespace

bool has_word_border(std::string_view piece) noexcept {
  for (std::size_t at = piece.find(visible_space); at != std::string_view::npos; at = piece.find(visible_space, at + 1)) {
    if (at > 0 && !piece.substr(0, at).ends_with(visible_space)) return true;
  }
  return false;
}

std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(BytePairModel model) { return std::make_unique<BytePairTokenizer>(std::move(model)); }

}  // namespace millrace::runtime
