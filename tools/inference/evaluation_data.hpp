#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/rank/batch_provider.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/data/text_files.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/train_config.hpp"

namespace millrace::tools {

/// Files to measure a model on, as held-out batches. data.held_out = n takes what training holds out: every n-th file, of a single one its
/// last part; 0 takes all.
class EvaluationData : public actors::BatchProvider {
 public:
  /// data.text through `tokenizer`: a file is a document, between the tokenizer's begin and end of a document where it has them. Null: the
  /// byte vocabulary, read as training reads it, without holding the tokens in memory. data.tokens as they are. All tokens are checked
  /// against `vocabulary`, the model's. Errors: Error(data), Error(config).
  EvaluationData(const runtime::DataConfig& config, const runtime::Tokenizer* tokenizer, std::int64_t vocabulary,
                 const runtime::BatchShape& shape);

  /// "5 files", "the last 120 tokens of …".
  [[nodiscard]] const std::string& extent() const noexcept { return extent_; }
  /// All that is read.
  [[nodiscard]] const std::vector<runtime::DataFile>& files() const noexcept { return files_; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return stream_->size(); }
  /// Bytes of the text that the targets of all microbatches spell; nothing for token files.
  [[nodiscard]] std::optional<std::int64_t> target_bytes() const noexcept { return target_bytes_; }

  void fill(std::int64_t, std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override { return 0; }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return source_->microbatches(); }
  void fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const override { source_->fill(microbatch, batch); }
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t microbatches) const override {
    return source_->valid_targets(0, microbatches);
  }

 private:
  std::string extent_;
  std::vector<runtime::DataFile> files_;
  std::optional<std::int64_t> target_bytes_;
  std::unique_ptr<runtime::TokenStream> stream_;
  std::unique_ptr<runtime::EvaluationSource> source_;
};

}  // namespace millrace::tools
