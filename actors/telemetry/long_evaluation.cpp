#include "actors/telemetry/long_evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/units.hpp"

namespace millrace::actors {

using std::chrono::milliseconds;

void LongEvaluation::begin(std::int64_t microbatches, Clock::time_point now) {
  microbatches_ = microbatches;
  done_ = 0;
  begun_ = now;
  next_ = now + (terminal_ ? milliseconds(2000) : milliseconds(10000));
}

std::optional<std::string> LongEvaluation::show(std::int64_t done, Clock::time_point now) {
  if (microbatches_ == 0) return std::nullopt;
  done_ = std::clamp(done, done_, microbatches_);
  if (now < next_) return std::nullopt;
  next_ = now + (terminal_ ? milliseconds(200) : milliseconds(10000));
  auto text = fmt::format("{} of {} microbatches", done_, microbatches_);
  if (done_ == 0) return text;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  const double left = seconds / static_cast<double>(done_) * static_cast<double>(microbatches_ - done_);
  return text + fmt::format(" | {} left", runtime::duration_text(left));
}

}  // namespace millrace::actors
