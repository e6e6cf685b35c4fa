#include "runtime/profile/transfer_time.hpp"

#include <map>
#include <tuple>

namespace millrace::runtime {

std::vector<TransferTime> transfer_times(std::span<const StepView> steps) {
  std::map<std::tuple<TransferKind, StageId, bool>, TransferTime> sums;
  for (const StepView& step : steps) {
    for (const StepView::Rank& rank : step.ranks) {
      for (const TransferRecord& record : rank.transfers) {
        TransferTime& sum = sums[{record.kind, record.stage, record.experts != 0}];
        sum.stage = record.stage;
        sum.kind = record.kind;
        sum.experts = record.experts != 0;
        ++sum.count;
        sum.bytes += record.bytes;
        sum.under_way += record.end - record.begin;
      }
    }
  }
  std::vector<TransferTime> times;
  for (const auto& [key, sum] : sums) times.push_back(sum);
  return times;
}

}  // namespace millrace::runtime
