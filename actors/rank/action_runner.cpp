#include "actors/rank/action_runner.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <utility>

#include "actors/rank/nan_hook.hpp"
#include "actors/rank/rank.hpp"
#include "actors/rank/replica_hook.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/range.hpp"
#include "runtime/io/fault.hpp"

namespace millrace::actors {

void ProgramRunner::run(Rank& rank, runtime::Stage& stage, const Execute& execute) {
  rank.set_running({execute.action, execute.pass, execute.step});
  FaultHook faults(rank.hook());
  const kernels::Range range(to_string(execute.pass).data());
  auto& compute = rank.compute();
  if (execute.first_of_batch) compute.upload(rank.context(), execute.slots.batch);
  rank.copy_in(execute.arrival);
  auto* hook = runtime::value_faults() ? &faults : rank.hook();
  std::optional<ReplicaHook> transfers;
  if (ReplicaExchange* replicas = rank.replicas(); replicas != nullptr && replicas->busy())
    hook = &transfers.emplace(hook, *replicas, rank.context(), execute.completes);
  if (execute.segments == 1) {
    stage.run(execute.pass, rank.context(), execute.slots, hook);
  } else {
    RankExchange& exchange = rank.exchange();
    exchange.begin(execute.first_exchange);
    stage.run_segment(execute.pass, static_cast<std::size_t>(execute.segment), rank.context(), execute.slots, hook, &exchange);
    MILLRACE_CHECK(exchange.next() == execute.first_exchange + execute.posts, ExitCode::internal, "actors.rank",
                   "segment {} of {} posted {} exchanges, expected {}", execute.segment, execute.action,
                   exchange.next() - execute.first_exchange, execute.posts);
  }
  if (execute.pass == runtime::Pass::logits && execute.segment + 1 == execute.segments)
    compute.download_logits(rank.context(), execute.action.stage);
  rank.copy_out(execute.departure);
}

TimedRunner::TimedRunner(std::vector<TimedEntry> entries, int members) : entries_(std::move(entries)), members_(members) {
  std::size_t most = 0;
  for (const TimedEntry& entry : entries_)
    for (const auto& exchange : entry.exchanges) most = std::max(most, exchange.floats * static_cast<std::size_t>(members));
  sent_.resize(most);
  for (auto& each : received_) each.resize(most);
}

void TimedRunner::run(Rank& rank, runtime::Stage&, const Execute& execute) {
  // By default the kernel may delay a wake-up by 50 µs to combine several; together with the wake-up time of the processor that
  // often exceeds `spin`.
  thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1UL);
  static_cast<void>(exact);
  const auto begin = std::chrono::steady_clock::now();
  const TimedEntry& entry = entries_.at(static_cast<std::size_t>(execute.index));
  const auto end = begin + entry.duration;
  if (end - begin > spin) std::this_thread::sleep_until(end - spin);
  // Ranks whose timers end at the same time on few cores yield to each other, so that those with work go first.
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  for (std::size_t index = 0; index < entry.exchanges.size(); ++index) {
    const TimedEntry::Exchange& exchange = entry.exchanges[index];
    const std::int64_t sequence = execute.first_exchange + static_cast<std::int64_t>(index);
    link_free_ = std::max(link_free_, std::chrono::steady_clock::now()) + exchange.time;
    rank.exchange().begin(sequence);
    rank.exchange().keep_until(sequence, link_free_);
    if (exchange.floats == 0) {  // a round that no member is expected to need
      constexpr std::array<std::int32_t, 2> none{-1, -1};
      rank.exchange().post({{}, {}, {}, none, none, true});
      continue;
    }
    const kernels::Shape shape{members_, static_cast<std::int64_t>(exchange.floats)};
    const kernels::Tensor send = kernels::make_tensor(sent_.data(), kernels::DType::f32, shape);
    const kernels::Tensor receive = kernels::make_tensor(received_[posted_++ % most_under_way].data(), kernels::DType::f32, shape);
    rank.exchange().post({{}, send, receive, {}, {}});
  }
}

}  // namespace millrace::actors
