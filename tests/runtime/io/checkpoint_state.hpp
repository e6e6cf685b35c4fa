#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_file.hpp"
#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime::testing {

/// Keeps the two newest checkpoints.
inline constexpr Retention keep_two{2, 0};

/// The state of a run at some step, a function of the step.
struct State {
  std::uint64_t step = 0;
  std::map<std::string, std::vector<float>> tensors;

  explicit State(std::uint64_t step_) : step(step_) {
    std::size_t size = 3;
    for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "adamw.m/model.norm.weight", "adamw.v/model.norm.weight"}) {
      auto& values = tensors[name];
      for (std::size_t index = 0; index < size; ++index)
        values.push_back(static_cast<float>(step * 1000 + size) + 0.25F * static_cast<float>(index));
      size += 7;
    }
  }

  /// The tensors of writer w of n: every n-th tensor.
  [[nodiscard]] std::vector<CheckpointTensor> share(int writer, int writers) const {
    std::vector<CheckpointTensor> result;
    int index = 0;
    for (const auto& [name, values] : tensors)
      if (index++ % writers == writer)
        result.push_back({name, FileDType::f32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values)), {}});
    return result;
  }

  [[nodiscard]] CheckpointMeta meta() const { return {step, step * 8, {{"train.seed", "1"}}, {{"build", "test"}}}; }
};

/// A complete save; after an error the attempt is discarded and the error rethrown.
inline CommitResult save(CheckpointStore& store, const State& state, int writers = 2) {
  const auto folder = store.begin(state.step, 4096);
  try {
    std::vector<ShardReport> reports;
    for (int writer = 0; writer < writers; ++writer)
      reports.push_back(ShardReport::from_text(write_shard(folder, writer, writers, state.share(writer, writers)).text()));
    return store.commit(folder, reports, state.meta());
  } catch (const Error&) {
    store.discard(folder);
    throw;
  }
}

/// Whether a checkpoint is, byte for byte, the state of its step.
inline bool is_exact(const CheckpointReader& reader) {
  const State state(reader.step());
  if (reader.manifest().tensors.size() != state.tensors.size() || reader.meta().consumed_samples != reader.step() * 8) return false;
  for (const auto& [name, values] : state.tensors) {
    std::vector<float> read(values.size());
    reader.read(name, read);
    if (read != values) return false;
  }
  return true;
}

}  // namespace millrace::runtime::testing
