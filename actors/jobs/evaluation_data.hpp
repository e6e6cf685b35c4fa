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

namespace millrace::actors {

/// The files on which a model is evaluated, as held-out batches: those of data.validation. Without them, with data.held_out = n, what
/// training holds out of each source: every n-th file, or the last part of a single file; 0 takes everything.
class EvaluationData : public BatchProvider {
 public:
  /// Reads data.text through `tokenizer`: each file is a document, with the tokenizer's begin- and end-of-document tokens if it
  /// has them. If `tokenizer` is null, text is read by the byte vocabulary as in training, without holding the tokens in memory.
  /// data.tokens is read as it is. All tokens are checked against `vocabulary`, the model's. Errors: Error(data), Error(config).
  EvaluationData(const runtime::DataConfig& config, const runtime::Tokenizer* tokenizer, std::int64_t vocabulary,
                 const runtime::BatchShape& shape);

  /// Describes the extent: "5 files", "the last 120 tokens of …".
  [[nodiscard]] const std::string& extent() const noexcept { return extent_; }
  /// Every file that is read.
  [[nodiscard]] const std::vector<runtime::DataFile>& files() const noexcept { return files_; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return stream_->size(); }
  /// Number of text bytes that the targets of all microbatches spell; nothing for token files.
  [[nodiscard]] std::optional<std::int64_t> target_bytes() const noexcept { return target_bytes_; }

  void fill(std::int64_t, std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override { return 0; }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return source_->microbatches(); }
  void fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const override { source_->fill(microbatch, batch); }
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t microbatches) const override {
    return source_->valid_targets(0, microbatches);
  }
  [[nodiscard]] std::int64_t evaluation_mtp_targets(std::int64_t microbatches, int module) const override {
    return source_->mtp_targets(0, microbatches, module);
  }

 private:
  std::string extent_;
  std::vector<runtime::DataFile> files_;
  std::optional<std::int64_t> target_bytes_;
  std::unique_ptr<runtime::TokenStream> stream_;
  std::unique_ptr<runtime::EvaluationSource> source_;
};

}  // namespace millrace::actors
