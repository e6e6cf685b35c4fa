#include "actors/jobs/evaluation_data.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/run_files.hpp"

namespace millrace::actors {
namespace {

constexpr const char* evaluation_data_component = "data";

/// Tokens in memory, with the ends of documents.
class TokenizedText final : public runtime::TokenStream {
 public:
  /// Appends a document; returns the number of its bytes that its tokens spell, without the first token.
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
      MILLRACE_CHECK(tokens_[i] >= 0 && tokens_[i] < vocabulary, ExitCode::data, evaluation_data_component,
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

/// Files that are evaluated together: whole, or the last part of a single one.
struct Part {
  std::vector<runtime::DataFile> files;
  bool last_part = false;
  std::string label;  // of their source
};

/// What training holds out: the validation data, or a part of every source; everything if data.held_out is 0.
std::vector<Part> parts_of(const runtime::DataConfig& config) {
  if (!config.validation.empty()) return {{runtime::list_validation_files(config), false, "data.validation"}};
  auto files = runtime::list_run_files(config);
  std::vector<Part> parts;
  std::size_t listed = 0;
  for (std::size_t i = 0; i < files.sources.size(); ++i) {
    auto& own = files.sources[i].files;
    listed += own.size();
    const bool single = own.size() == 1 && config.held_out > 1;
    if (config.held_out > 0 && !single) own = runtime::split_held_out(std::move(own), config.held_out).held_out;
    if (!own.empty()) parts.push_back({std::move(own), single, runtime::source_label(files, i)});
  }
  MILLRACE_CHECK(!parts.empty(), ExitCode::data, evaluation_data_component,
                 "data.held_out = {} holds out none of {}, expected 0 (all of them) or at most {}", config.held_out,
                 counted(listed, "file"), listed);
  return parts;
}

}  // namespace

EvaluationData::EvaluationData(const runtime::DataConfig& config, const runtime::Tokenizer* tokenizer, std::int64_t vocabulary,
                               const runtime::BatchShape& shape) {
  const bool text = !config.text.empty();
  const bool bytes = text && tokenizer == nullptr;
  MILLRACE_CHECK(!bytes || vocabulary >= runtime::ByteTokenizer::vocabulary, ExitCode::data, evaluation_data_component,
                 "the byte vocabulary has {} tokens, the model's vocabulary has {}", +runtime::ByteTokenizer::vocabulary, vocabulary);
  if (text) target_bytes_ = 0;

  auto tokenized = std::make_unique<TokenizedText>();
  std::vector<std::unique_ptr<runtime::TokenStream>> streams;
  std::vector<std::string> problems;
  std::size_t whole = 0;
  const auto parts = parts_of(config);
  for (const Part& part : parts) {
    const auto content = runtime::content_files(part.files, text);
    // Training splits a text by its bytes, whatever the tokenizer, so the same is done here: the same bytes are held out.
    std::unique_ptr<runtime::TokenStream> stream;
    std::int64_t begin = 0;
    runtime::labelled(part.label, [&] {
      if (!text) stream = runtime::open_token_stream(part.files, vocabulary, static_cast<std::int32_t>(config.separator));
      if (bytes || (text && part.last_part)) stream = runtime::open_text_stream(part.files);
    });
    if (part.last_part) {
      const auto last = runtime::last_part(*stream, config.held_out);
      const auto extent = (part.label.empty() ? "" : part.label + ": ") + runtime::describe(last, stream->size());
      if (!last.problem.empty()) {
        problems.push_back(extent);
        continue;
      }
      extent_ += (extent_.empty() ? "" : "; ") + extent;
      begin = last.begin;
    } else {
      whole += part.files.size();
    }
    files_.insert(files_.end(), content.begin(), content.end());
    if (!text || bytes) {
      for (const auto& file : part.files)
        if (text) *target_bytes_ += std::max<std::int64_t>(static_cast<std::int64_t>(file.size) - begin, 1) - 1;
      const auto size = stream->size();
      if (parts.size() > 1 && size - begin < 2) continue;  // as in training
      streams.push_back(part.last_part ? runtime::part_of(std::move(stream), begin, size) : std::move(stream));
      continue;
    }
    for (const auto& file : part.files) {
      const runtime::MappedFile mapped(file.path);
      const auto first = static_cast<std::size_t>(tokenized->size());
      const auto rest = text_of(mapped).substr(static_cast<std::size_t>(begin));
      if (!rest.empty()) *target_bytes_ += tokenized->append(rest, *tokenizer);
      tokenized->check(file, first, vocabulary);
    }
  }
  MILLRACE_CHECK(!files_.empty(), ExitCode::data, evaluation_data_component, "data.held_out = {} holds out {}; expected 0 (all of it)",
                 config.held_out, fmt::join(problems, "; "));
  if (whole > 0) extent_ += fmt::format("{}{}", extent_.empty() ? "" : "; ", counted(whole, "file"));
  if (text && !bytes) streams.push_back(std::move(tokenized));
  stream_ = runtime::join(std::move(streams));
  MILLRACE_CHECK(stream_->size() >= 2, ExitCode::data, evaluation_data_component,
                 "{}{}: {}, expected 2 or more: the loss is that of a token after another", files_.front().path.string(),
                 files_.size() > 1 ? fmt::format(" and {} more", files_.size() - 1) : "", counted(stream_->size(), "token"));
  source_ = std::make_unique<runtime::EvaluationSource>(*stream_, shape);
}

}  // namespace millrace::actors
