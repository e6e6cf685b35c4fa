#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/jobs/forward_job.hpp"
#include "actors/sampler.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// What to generate, and how. The job's microbatch is one row; it holds the prompt and all tokens except the last, which is never
/// read.
struct GenerationSettings {
  std::vector<std::int32_t> prompt;  // at least one token, all below the model's vocab_size
  std::int64_t tokens = 1;           // maximum
  Sampling sampling;
  /// Called in process 0 with each token, in order, on the driver's thread; returning false ends the text after it. May throw
  /// Error.
  std::function<bool(std::int32_t token)> token;
};

/// The cost of a generation, from the order of the first forward to the last token.
struct Generated {
  std::int64_t tokens = 0;
  double seconds = 0;
};

/// Continues the prompt: for each token it runs a forward of the whole row through the pipeline. Token i of the text (including
/// the prompt) is sampled with index i, so a text depends on the layout no more than logits do. Collective; the session must be
/// connected. Returns the cost in process 0, nothing elsewhere. Errors: Error(model), Error(checkpoint), Error(config); logits
/// that are not finite end the job with code numerics.
Generated generate(Session& session, const ForwardJob& job, const GenerationSettings& settings);

}  // namespace millrace::actors
