#pragma once

#include <cstdint>
#include <vector>

#include "actors/rank/batch_provider.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {

/// The rows of each step in a golden.safetensors: `input_ids` is [rows, sequence], which is one step, or [steps, rows, sequence]. Rows are
/// packed documents with their own positions, segments and targets where the file has them, else a document each. Throws Error(model) for
/// another shape and for tokens outside of the vocabulary.
[[nodiscard]] std::vector<std::vector<GivenRow>> read_golden_rows(const runtime::SafetensorsFile& golden, std::int64_t vocabulary);

/// Given rows that differ from step to step.
class GivenSteps : public BatchProvider {
 public:
  /// Microbatches have `rows` rows each.
  GivenSteps(std::vector<std::vector<GivenRow>> steps, std::size_t rows, const runtime::MtpModules& modules = {}) {
    for (auto& step : steps) steps_.emplace_back(std::move(step), rows, modules);
  }
  void fill(std::int64_t step, std::int64_t microbatch, const runtime::BatchView& batch) const override {
    steps_.at(static_cast<std::size_t>(step)).fill(0, microbatch, batch);
  }
  [[nodiscard]] std::int64_t valid_targets(std::int64_t step) const override {
    return steps_.at(static_cast<std::size_t>(step)).valid_targets(0);
  }
  /// The number of targets of one microbatch of the step.
  [[nodiscard]] std::int64_t valid_targets_of(std::int64_t step, std::int64_t microbatch) const {
    return steps_.at(static_cast<std::size_t>(step)).valid_targets_of(microbatch);
  }
  [[nodiscard]] std::int64_t mtp_targets(std::int64_t step) const override {
    return steps_.at(static_cast<std::size_t>(step)).mtp_targets(0);
  }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return 0; }
  void fill_evaluation(std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t) const override { return 0; }

 private:
  std::vector<GivenRows> steps_;
};

}  // namespace millrace::actors
