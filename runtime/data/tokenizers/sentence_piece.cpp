#include "runtime/data/tokenizers/sentence_piece.hpp"

#include <sentencepiece_processor.h>

#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/byte_pair_tokenizer.hpp"
#include "runtime/data/tokenizers/component.hpp"
#include "runtime/data/tokenizers/sentence_piece_model.hpp"
#include "runtime/data/tokenizers/utf8.hpp"

namespace millrace::runtime {
namespace {

// The serialised field ModelProto.normalizer_spec.add_dummy_prefix = false. Protobuf merges it with the message that it is
// appended to.
constexpr std::string_view no_prefix("\x1a\x02\x18\x00", 4);

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(std::string_view bytes, const std::string& where) {
    load(first_, std::string(bytes), where);
    load(rest_, std::string(bytes) + std::string(no_prefix), where);
    MILLRACE_CHECK(first_.GetPieceSize() > 0, ExitCode::data, tokenize_component, "{}: a SentencePiece model without pieces", where);
    // The encoding of a single letter shows whether the model prepends a space.
    const std::vector<std::string> with = first_.EncodeAsPieces("a");
    has_prefix_ = !with.empty() && with.front().starts_with(visible_space);
    bytes_.fill(first_.unk_id());
    texts_.resize(static_cast<std::size_t>(first_.GetPieceSize()));
    for (int id = 0; id < first_.GetPieceSize(); ++id) texts_[static_cast<std::size_t>(id)] = text_of(id, where);
  }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override { run(text, ids, true); }
  void encode_rest(std::string_view text, std::vector<std::int32_t>& ids) const override { run(text, ids, false); }

  /// Converts to our own byte pairs if both give the same result; this object is not used afterwards.
  [[nodiscard]] std::unique_ptr<Tokenizer> as_byte_pairs(std::string_view bytes, const std::string& where) {
    auto model = byte_pairs_of_sentence_piece(bytes, where);
    if (!model) return nullptr;
    model->texts = std::move(texts_);
    model->spelled = std::move(spelled_);
    model->padding = padding();
    model->special = special_;
    model->bytes = bytes_;
    model->begin_of_document = begin_of_document();
    model->end_of_document = end_of_document();
    return make_byte_pair_tokenizer(std::move(*model));
  }

  [[nodiscard]] std::vector<SpecialToken> special_tokens() const override { return special_; }

  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id >= 0 && static_cast<std::size_t>(id) < texts_.size()) text += texts_[static_cast<std::size_t>(id)];
    }
    if (has_prefix_ && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  [[nodiscard]] std::int64_t vocabulary() const noexcept override { return static_cast<std::int64_t>(texts_.size()); }
  [[nodiscard]] std::optional<std::int32_t> begin_of_document() const noexcept override { return there(first_.bos_id()); }
  [[nodiscard]] std::optional<std::int32_t> end_of_document() const noexcept override { return there(first_.eos_id()); }
  [[nodiscard]] std::optional<std::int32_t> padding() const noexcept override { return there(first_.pad_id()); }
  [[nodiscard]] Spelling spelling(std::int32_t id) const override {
    const auto found = spelled_.find(id);
    return found != spelled_.end() ? found->second : Tokenizer::spelling(id);
  }

 private:
  static void load(sentencepiece::SentencePieceProcessor& processor, const std::string& bytes, const std::string& where) {
    const auto status = processor.LoadFromSerializedProto(bytes);
    MILLRACE_CHECK(status.ok(), ExitCode::data, tokenize_component,
                   "{}: not a model of SentencePiece that can be read, expected its tokenizer.model (the library says \"{}\")", where,
                   std::string_view(status.error_message()).substr(0, 300));
  }

  static std::optional<std::int32_t> there(int id) noexcept { return id < 0 ? std::nullopt : std::optional<std::int32_t>(id); }

  std::string text_of(int id, const std::string& where) {
    const std::string& piece = first_.IdToPiece(id);
    if (first_.IsControl(id) || first_.IsUnknown(id)) {
      spelled_[id] = {piece, true};
      special_.push_back({piece, id});
      return {};
    }
    if (first_.IsByte(id)) {
      const auto digit = [](char letter) { return letter >= 'A' ? letter - 'A' + 10 : letter - '0'; };
      const bool spelled = piece.size() == 6 && piece.starts_with("<0x") && piece.find_first_not_of("0123456789ABCDEF", 3) == 5;
      MILLRACE_CHECK(spelled, ExitCode::data, tokenize_component, "{}: piece {} is a byte but not spelled as one", where, id);
      const int byte = digit(piece[3]) * 16 + digit(piece[4]);
      bytes_[static_cast<std::size_t>(byte)] = id;
      return std::string(1, static_cast<char>(byte));
    }
    std::string text = piece;
    for (std::size_t at = text.find(visible_space); at != std::string::npos; at = text.find(visible_space, at + 1)) {
      text.replace(at, visible_space.size(), " ");
    }
    return text;
  }

  void run(std::string_view text, std::vector<std::int32_t>& ids, bool begins) const {
    std::vector<int> found;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t valid = end_of_valid(text, at);
      if (valid > at) {
        const auto& processor = begins && at == 0 ? first_ : rest_;
        const auto status = processor.Encode(absl::string_view(text.data() + at, valid - at), &found);
        MILLRACE_CHECK(status.ok(), ExitCode::data, tokenize_component, "a text of {} bytes was not encoded: {}", valid - at,
                       status.error_message());
        ids.insert(ids.end(), found.begin(), found.end());
      }
      at = end_of_invalid(text, valid);
      for (std::size_t i = valid; i < at; ++i) ids.push_back(bytes_[static_cast<unsigned char>(text[i])]);
    }
  }

  sentencepiece::SentencePieceProcessor first_;  // for the beginning of a text
  sentencepiece::SentencePieceProcessor rest_;   // for the text after a cut: the same model without the prepended space
  std::vector<std::string> texts_;
  std::unordered_map<std::int32_t, Spelling> spelled_;  // of special tokens
  std::vector<SpecialToken> special_;
  std::array<std::int32_t, 256> bytes_{};
  bool has_prefix_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentence_piece(std::string_view bytes, const std::string& where) {
  auto library = std::make_unique<SentencePiece>(bytes, where);
  auto quick = library->as_byte_pairs(bytes, where);
  if (quick) return quick;
  return library;
}

}  // namespace millrace::runtime
