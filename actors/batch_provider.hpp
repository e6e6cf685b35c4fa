#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/batch_source.hpp"
#include "runtime/data/dataset.hpp"

namespace millrace::actors {

/// Where the tokens of a microbatch come from; the same on every rank. Const functions, any thread.
class BatchProvider {
 public:
  virtual ~BatchProvider() = default;
  virtual void fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const = 0;
  [[nodiscard]] virtual std::int64_t valid_targets(std::int64_t step) const = 0;
  /// Held-out microbatches; 0: none.
  [[nodiscard]] virtual std::int64_t evaluation_microbatches() const = 0;
  virtual void fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const = 0;
  [[nodiscard]] virtual std::int64_t evaluation_targets(std::int64_t microbatches) const = 0;
};

/// The run's data set.
class DatasetBatches : public BatchProvider {
 public:
  DatasetBatches(runtime::Dataset dataset, const runtime::BatchShape& shape)
      : dataset_(std::move(dataset)), train_(*dataset_.train, shape) {
    if (dataset_.held_out) evaluation_ = std::make_unique<runtime::EvaluationSource>(*dataset_.held_out, shape);
  }
  [[nodiscard]] const runtime::Dataset& dataset() const noexcept { return dataset_; }

  void fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const override {
    train_.fill(step, microbatch, batch);
  }
  [[nodiscard]] std::int64_t valid_targets(std::int64_t step) const override { return train_.valid_targets(step); }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return evaluation_ ? evaluation_->microbatches() : 0; }
  void fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const override { evaluation_->fill(microbatch, batch); }
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t microbatches) const override {
    return evaluation_ ? evaluation_->valid_targets(0, microbatches) : 0;
  }

 private:
  runtime::Dataset dataset_;
  runtime::BatchSource train_;
  std::unique_ptr<runtime::EvaluationSource> evaluation_;
};

/// Given rows of tokens, one row a microbatch, the same in every step: the target of a token is the next one, that of the last is masked.
class GivenRows : public BatchProvider {
 public:
  explicit GivenRows(std::vector<std::vector<std::int32_t>> rows) : rows_(std::move(rows)) {}

  void fill(std::int64_t, std::int64_t microbatch, const runtime::BatchView& batch) const override {
    const auto& row = rows_.at(static_cast<std::size_t>(microbatch));
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      batch.tokens[i] = row.at(i);
      batch.positions[i] = static_cast<std::int32_t>(i);
      batch.segments[i] = 1;
      batch.targets[i] = i + 1 < row.size() ? row[i + 1] : -1;
    }
  }
  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override {
    std::int64_t count = 0;
    for (const auto& row : rows_) count += static_cast<std::int64_t>(row.size()) - 1;
    return count;
  }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return 0; }
  void fill_evaluation(std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t) const override { return 0; }

 private:
  std::vector<std::vector<std::int32_t>> rows_;
};

}  // namespace millrace::actors
