#include "actors/rank/action_runner.hpp"

#include <sys/prctl.h>

#include <thread>
#include <utility>

#include "actors/rank/nan_hook.hpp"
#include "actors/rank/rank.hpp"
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

TimedRunner::TimedRunner(std::vector<std::chrono::nanoseconds> durations) : durations_(std::move(durations)) {}

void TimedRunner::run(Rank&, runtime::Stage&, const Execute& execute) {
  // By default the kernel may delay a wake-up by 50 µs to combine several; together with the wake-up time of the processor that
  // often exceeds `spin`.
  thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1UL);
  static_cast<void>(exact);
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + durations_.at(static_cast<std::size_t>(execute.index));
  if (end - begin > spin) std::this_thread::sleep_until(end - spin);
  // Ranks whose timers end at the same time on few cores yield to each other, so that those with work go first.
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace millrace::actors
