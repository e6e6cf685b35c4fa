#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/batch_source.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {

/// The source of a microbatch's tokens; the same on every rank. Const functions, any thread.
class BatchProvider {
 public:
  virtual ~BatchProvider() = default;
  virtual void fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const = 0;
  [[nodiscard]] virtual std::int64_t valid_targets(std::int64_t step) const = 0;
  /// Those of the modules of multi-token prediction; 0 from a provider for models without them.
  [[nodiscard]] virtual std::int64_t mtp_targets(std::int64_t) const { return 0; }
  /// Number of held-out microbatches; 0: none.
  [[nodiscard]] virtual std::int64_t evaluation_microbatches() const = 0;
  virtual void fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const = 0;
  [[nodiscard]] virtual std::int64_t evaluation_targets(std::int64_t microbatches) const = 0;
  /// The number of targets that `module` (from 1; 0: all modules together) has in the first `microbatches` held-out ones.
  [[nodiscard]] virtual std::int64_t evaluation_mtp_targets(std::int64_t /*microbatches*/, int /*module*/) const { return 0; }
  /// What the first `steps` steps of the run read; empty from a provider that reads no files.
  [[nodiscard]] virtual runtime::DataProgress progress(std::int64_t /*steps*/) const { return {}; }
};

/// The data of a run: its batches, and what identifies them. A program with data of its own derives from it (RunSettings::data_source).
class DataSource : public BatchProvider {
 public:
  /// Part of the run's identity: all processes must have the same, and so must the run that resumes this one.
  [[nodiscard]] virtual std::string fingerprint() const = 0;
  /// What training reads, for the lines at the start of a run: "1.2M tokens in 7 files".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// A line for each source of a mixture: its share, its size, and how often `steps` steps read it. Default: there is no mixture.
  [[nodiscard]] virtual std::vector<std::string> sources_text(std::int64_t /*steps*/) const { return {}; }
  /// The files behind it, whose content is hashed: resuming with other content is refused. Default: none.
  [[nodiscard]] virtual std::vector<runtime::DataFile> files() const { return {}; }
  /// What is held out for evaluations, or why nothing is. Default: nothing is.
  [[nodiscard]] virtual std::string held_out_text() const { return "nothing"; }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return 0; }
  void fill_evaluation(std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t) const override { return 0; }
};

/// Batches from the run's data set.
class DatasetBatches : public DataSource {
 public:
  /// Errors: Error(data) if the training data, or data.validation, have fewer tokens than one row.
  DatasetBatches(runtime::Dataset dataset, const runtime::BatchShape& shape)
      : dataset_(std::move(dataset)), train_(dataset_.streams(), shape) {
    if (!dataset_.held_out) return;
    MILLRACE_CHECK(!dataset_.validation || dataset_.held_out->size() > shape.sequence, ExitCode::data, "data",
                   "data.validation: {}; expected {} tokens or more (a row of train.sequence and its last target)", dataset_.held_out_text,
                   shape.sequence + 1);
    evaluation_ = std::make_unique<runtime::EvaluationSource>(*dataset_.held_out, shape);
  }
  [[nodiscard]] const runtime::Dataset& dataset() const noexcept { return dataset_; }
  [[nodiscard]] runtime::DataProgress progress(std::int64_t steps) const override { return train_.progress(steps); }

  [[nodiscard]] std::string fingerprint() const override { return dataset_.fingerprint; }
  [[nodiscard]] std::string describe() const override {
    return fmt::format("{} tokens{} in {}", runtime::count_text(static_cast<double>(dataset_.train_tokens())),
                       dataset_.format.empty() ? "" : " (" + dataset_.format + ")", counted(dataset_.train_files, "file"));
  }
  [[nodiscard]] std::vector<std::string> sources_text(std::int64_t steps) const override {
    std::vector<std::string> lines;
    const auto& sources = dataset_.sources;
    const auto read = train_.progress(steps).sources;
    for (std::size_t i = 0; sources.size() > 1 && i < sources.size(); ++i)
      lines.push_back(fmt::format("{} | {:.4g} % of the samples | {} tokens in {} | {:.2f} epochs in {}", sources[i].name,
                                  100 * train_.share(i), runtime::count_text(static_cast<double>(sources[i].stream->size())),
                                  counted(sources[i].files, "file"), read[i].epochs, counted(steps, "step")));
    return lines;
  }
  [[nodiscard]] std::vector<runtime::DataFile> files() const override { return dataset_.files; }
  [[nodiscard]] std::string held_out_text() const override { return dataset_.held_out_text; }
  void fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const override {
    train_.fill(step, microbatch, batch);
  }
  [[nodiscard]] std::int64_t valid_targets(std::int64_t step) const override { return train_.valid_targets(step); }
  [[nodiscard]] std::int64_t mtp_targets(std::int64_t step) const override { return train_.mtp_targets(step); }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return evaluation_ ? evaluation_->microbatches() : 0; }
  void fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const override { evaluation_->fill(microbatch, batch); }
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t microbatches) const override {
    return evaluation_ ? evaluation_->valid_targets(0, microbatches) : 0;
  }
  [[nodiscard]] std::int64_t evaluation_mtp_targets(std::int64_t microbatches, int module) const override {
    return evaluation_ ? evaluation_->mtp_targets(0, microbatches, module) : 0;
  }

 private:
  runtime::Dataset dataset_;
  runtime::BatchSource train_;
  std::unique_ptr<runtime::EvaluationSource> evaluation_;
};

/// One given row; all rows have the same length. A negative target is masked.
struct GivenRow {
  std::vector<std::int32_t> tokens, positions, segments, targets;
};

/// Batches of given rows, `rows` per microbatch, the same in every step.
class GivenRows : public BatchProvider {
 public:
  GivenRows(std::vector<GivenRow> all, std::size_t rows, const runtime::MtpModules& modules = {})
      : all_(std::move(all)), rows_(rows), modules_(modules) {}

  /// A row of one document: the target of a token is the next one, and that of the last is masked.
  [[nodiscard]] static GivenRow document(std::vector<std::int32_t> tokens) {
    GivenRow row;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      row.positions.push_back(static_cast<std::int32_t>(i));
      row.segments.push_back(1);
      row.targets.push_back(i + 1 < tokens.size() ? tokens[i + 1] : -1);
    }
    row.tokens = std::move(tokens);
    return row;
  }

  void fill(std::int64_t, std::int64_t microbatch, const runtime::BatchView& batch) const override {
    runtime::pad(batch);
    for (std::size_t r = 0; r < rows_; ++r) {
      const GivenRow& row = all_.at(static_cast<std::size_t>(microbatch) * rows_ + r);
      const std::size_t length = row.tokens.size();
      for (std::size_t i = 0; i < length; ++i) {
        batch.tokens[r * length + i] = row.tokens[i];
        batch.positions[r * length + i] = row.positions[i];
        batch.segments[r * length + i] = row.segments[i];
        batch.targets[r * length + i] = row.targets[i];
      }
    }
  }
  /// The number of targets of one microbatch.
  [[nodiscard]] std::int64_t valid_targets_of(std::int64_t microbatch) const {
    std::int64_t count = 0;
    for (std::size_t r = 0; r < rows_; ++r)
      count += std::ranges::count_if(all_.at(static_cast<std::size_t>(microbatch) * rows_ + r).targets,
                                     [](std::int32_t target) { return target >= 0; });
    return count;
  }
  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override {
    std::int64_t count = 0;
    for (const GivenRow& row : all_) count += std::ranges::count_if(row.targets, [](std::int32_t target) { return target >= 0; });
    return count;
  }
  [[nodiscard]] std::int64_t mtp_targets(std::int64_t) const override {
    std::int64_t count = 0;
    for (const GivenRow& row : all_)
      count += runtime::count_mtp_targets(row.targets, row.segments, static_cast<std::int64_t>(row.targets.size()), modules_);
    return count;
  }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return 0; }
  void fill_evaluation(std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t) const override { return 0; }

 private:
  std::vector<GivenRow> all_;
  std::size_t rows_;
  runtime::MtpModules modules_;
};

}  // namespace millrace::actors
