#include "tools/inference/evaluation_data.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/mapped_file.hpp"

namespace millrace::tools {
namespace {

constexpr const char* who = "data";

/// Tokens in memory, and where documents end.
class TokenizedText final : public runtime::TokenStream {
 public:
  /// Appends a document; returns the bytes of it that its tokens but the first spell.
  std::int64_t append(std::string_view text, const runtime::Tokenizer& tokenizer) {
    const std::size_t first = tokens_.size();
    if (const auto begin = tokenizer.begin_of_document()) tokens_.push_back(*begin);
    tokenizer.encode(text, tokens_);
    if (const auto end = tokenizer.end_of_document()) tokens_.push_back(*end);
    if (tokens_.size() == first) return 0;
    borders_.push_back(static_cast<std::int64_t>(tokens_.size()) - 1);
    const auto unread = tokenizer.begin_of_document() ? std::size_t{0} : tokenizer.decode({&tokens_[first], 1}).size();
    return static_cast<std::int64_t>(text.size() - std::min(unread, text.size()));
  }
  void check(const runtime::DataFile& file, std::size_t first, std::int64_t vocabulary) const {
    for (std::size_t i = first; i < tokens_.size(); ++i)
      MILLRACE_CHECK(tokens_[i] >= 0 && tokens_[i] < vocabulary, ExitCode::data, who,
                     "{}: the tokenizer gives token {}, the model's vocabulary has {}; is it this model's tokenizer?", file.path.string(),
                     tokens_[i], vocabulary);
  }

  [[nodiscard]] std::int64_t size() const noexcept override { return static_cast<std::int64_t>(tokens_.size()); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    std::copy_n(tokens_.begin() + first, tokens.size(), tokens.begin());
  }
  [[nodiscard]] std::int64_t next_border(std::int64_t first, std::int64_t last) const override {
    const auto border = std::lower_bound(borders_.begin(), borders_.end(), first);
    return border == borders_.end() ? last : std::min(*border, last);
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> borders_;  // ascending
};

std::string_view text_of(const runtime::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

EvaluationData::EvaluationData(const runtime::DataConfig& config, const runtime::Tokenizer* tokenizer, std::int64_t vocabulary,
                               const runtime::BatchShape& shape) {
  const bool text = !config.text.empty();
  auto files = runtime::data_files(config);
  const auto listed = files.size();
  if (config.held_out > 0) files = runtime::split_held_out(std::move(files), config.held_out).held_out;
  MILLRACE_CHECK(!files.empty(), ExitCode::data, who, "data.held_out = {} holds out none of {} files, wanted 0 (all of them) or at most {}",
                 config.held_out, listed, listed);
  files_ = static_cast<std::int64_t>(files.size());
  if (!text) {
    stream_ = runtime::open_token_stream(files, vocabulary, static_cast<std::int32_t>(config.separator));
  } else if (tokenizer == nullptr) {
    MILLRACE_CHECK(vocabulary >= runtime::ByteTokenizer::vocabulary, ExitCode::data, who,
                   "the byte vocabulary has {} tokens, the model's vocabulary has {}", +runtime::ByteTokenizer::vocabulary, vocabulary);
    stream_ = runtime::open_text_stream(files);
    target_bytes_ = 0;
    for (const auto& file : files) *target_bytes_ += static_cast<std::int64_t>(std::max<std::uint64_t>(file.size, 1) - 1);
  } else {
    auto tokenized = std::make_unique<TokenizedText>();
    target_bytes_ = 0;
    for (const auto& file : files) {
      const runtime::MappedFile mapped(file.path);
      const auto first = static_cast<std::size_t>(tokenized->size());
      if (!mapped.bytes().empty()) *target_bytes_ += tokenized->append(text_of(mapped), *tokenizer);
      tokenized->check(file, first, vocabulary);
    }
    stream_ = std::move(tokenized);
  }
  source_ = std::make_unique<runtime::EvaluationSource>(*stream_, shape);
}

}  // namespace millrace::tools
