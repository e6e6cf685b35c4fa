#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/batch.hpp"
#include "runtime/batch_ramp.hpp"
#include "runtime/data/blend.hpp"
#include "runtime/data/data_progress.hpp"
#include "runtime/data/mtp_targets.hpp"
#include "runtime/data/token_stream.hpp"

namespace millrace::runtime {

/// The shape of a run's batches. A step is some microbatches of `rows` rows of `sequence` tokens.
struct BatchShape {
  std::int64_t rows = 1;
  std::int64_t sequence = 1;
  BatchRamp microbatches = BatchRamp(1);  // of each step
  std::uint64_t seed = 1;
  bool packing = true;
  MtpModules modules = {};
};

/// A stream that a run trains on, with its share of the samples.
struct WeightedStream {
  const TokenStream* stream = nullptr;
  double weight = 1;
  std::string name = {};  // for messages and records
};

/// Cuts a stream into windows of `sequence` tokens plus the target of the last one (neighbours share that token, so every token
/// is a target once per epoch; a remainder shorter than a window is dropped) and gives them out in an order that is a pure
/// function of (seed, epoch, sample). Every window appears once per epoch. Sample = (number of the microbatch over the
/// whole run) * rows + row.
///
/// Several streams have windows, epochs and an order of its own, and Blend says which of them a sample comes from, whatever the
/// seed. A stream alone has the same order as without a weight.
///
/// The target of a border token is masked: it would be the next document's first token. With packing, positions restart and the
/// segment id increases at each document, so that documents do not attend to each other; without packing, a row is one segment
/// with positions 0 … sequence-1, and a document attends to those before it in the row.
///
/// All members are const, allocate nothing and may be called from several threads at once.
class BatchSource {
 public:
  /// The streams must outlive the source. Errors: Error(data) if a stream is shorter than one window.
  BatchSource(const std::vector<WeightedStream>& streams, const BatchShape& shape);
  BatchSource(const TokenStream& stream, const BatchShape& shape) : BatchSource({WeightedStream{&stream}}, shape) {}

  /// The windows of all streams.
  [[nodiscard]] std::int64_t windows() const noexcept;

  void fill(std::int64_t step, std::int64_t microbatch, const BatchView& batch) const;

  /// Number of targets of the step that are not masked, over all its microbatches: the denominator of the loss. Reads no text.
  [[nodiscard]] std::int64_t valid_targets(std::int64_t step) const;
  /// The same for the targets of the modules of multi-token prediction.
  [[nodiscard]] std::int64_t mtp_targets(std::int64_t step) const;

  /// What the first `steps` steps read; with masked tokens and padding, as tokens are counted per step. Allocates.
  [[nodiscard]] DataProgress progress(std::int64_t steps) const;
  /// The share of the samples that a stream has.
  [[nodiscard]] double share(std::size_t stream) const noexcept { return blend_.share(stream); }

 private:
  struct Source {
    const TokenStream* stream;
    std::int64_t windows;
    std::uint64_t seed;
    std::string name;
  };
  /// A window: its stream, and the index of its first token there.
  struct Window {
    const TokenStream& stream;
    std::int64_t first;
  };
  [[nodiscard]] Window window_of(std::int64_t sample) const noexcept;
  /// Calls body(window) for every window of the step.
  template <class Body>
  void for_each_window(std::int64_t step, Body body) const;

  BatchShape shape_;
  Blend blend_;
  std::vector<Source> sources_;
};

/// The batches of an evaluation: every window of the held-out stream once. Their order depends only on their number, so that the
/// first n microbatches are a fair sample, and the same one in every run. The last window may be short and the last microbatch
/// may have fewer rows; the rest is padding (token 0, segment 0, target -1).
class EvaluationSource {
 public:
  /// The stream must outlive the source; `shape.microbatches` and `shape.seed` are not used.
  /// Errors: Error(data) if the stream has fewer than two tokens.
  EvaluationSource(const TokenStream& stream, const BatchShape& shape);

  [[nodiscard]] std::int64_t microbatches() const noexcept;
  void fill(std::int64_t microbatch, const BatchView& batch) const;
  [[nodiscard]] std::int64_t valid_targets(std::int64_t first_microbatch, std::int64_t count) const;
  /// The number of targets that `module` (from 1; 0: all modules together) has in these microbatches.
  [[nodiscard]] std::int64_t mtp_targets(std::int64_t first_microbatch, std::int64_t count, int module) const;

 private:
  [[nodiscard]] std::int64_t window_of(std::int64_t sample) const noexcept;
  /// Calls body(first token, tokens) for every window of these microbatches.
  template <class Body>
  void for_each_window(std::int64_t first_microbatch, std::int64_t count, Body body) const;

  const TokenStream& stream_;
  BatchShape shape_;
  std::int64_t windows_;
};

}  // namespace millrace::runtime
