#include "actors/head_actor.hpp"

namespace millrace::actors {

void HeadActor::exchange_tied() { send_accumulator(1, rank().plan().tied_channel(false)); }

void losses_of(const Rank& rank, std::int64_t microbatches, std::vector<double>& losses) {
  const auto& runner = rank.compute().stage(runtime::StageId(rank.plan().stages() - 1));
  losses.resize(static_cast<std::size_t>(microbatches));
  for (std::size_t microbatch = 0; microbatch < losses.size(); ++microbatch)
    losses[microbatch] = runner.result(static_cast<int>(microbatch))[0];
}

std::vector<float> logits_of(const Rank& rank, std::int64_t position) {
  const runtime::StageId stage(rank.plan().stages() - 1);
  const auto vocabulary = rank.plan().model.vocab_size;
  const auto* logits = reinterpret_cast<const float*>(rank.compute().memory().slot(runtime::MemoryKind::logits, stage));
  return {logits + position * vocabulary, logits + (position + 1) * vocabulary};
}

}  // namespace millrace::actors
