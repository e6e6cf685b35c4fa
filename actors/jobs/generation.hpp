#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/jobs/forward_job.hpp"
#include "actors/sampler.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// What to write, and how. The job's microbatch is one row; it holds the prompt and all tokens but the last, which nothing reads.
struct GenerationSettings {
  std::vector<std::int32_t> prompt;  // one token or more, all below the model's vocab_size
  std::int64_t tokens = 1;           // at most
  Sampling sampling;
  /// Called in process 0 with each token, in order, on the driver's thread; false ends the text after it. May throw Error.
  std::function<bool(std::int32_t token)> token;
};

/// What a generation took, from the first forward's order to the last token.
struct Generated {
  std::int64_t tokens = 0;
  double seconds = 0;
};

/// Writes on behind the prompt: a forward of the whole row through the pipeline for each token. The token numbered i of the text (prompt
/// included) is drawn with index i, so a text depends on layout no more than logits do. Collective; the session is connected. In process 0
/// what it took, elsewhere nothing. Errors: Error(model), Error(checkpoint), Error(config); logits that are not finite end the job with
/// code numerics.
Generated generate(Session& session, const ForwardJob& job, const GenerationSettings& settings);

}  // namespace millrace::actors
