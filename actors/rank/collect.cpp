#include "actors/rank/collect.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/transfer.hpp"

namespace millrace::actors {
namespace {

void report_tensor(int rank, const CapturedTensor& tensor, const std::function<void(const ToCoordinator&)>& report) {
  constexpr std::size_t most = std::size_t{1} << 20;
  for (std::size_t from = 0; from == 0 || from < tensor.values.size(); from += most) {
    const auto begin = tensor.values.begin() + static_cast<std::ptrdiff_t>(from);
    const auto count = static_cast<std::ptrdiff_t>(std::min(most, tensor.values.size() - from));
    report(Collected{
        rank, false, {tensor.name, tensor.shape, {begin, begin + count}, tensor.first, tensor.experts, tensor.begin, tensor.count}});
  }
}

}  // namespace

void collect(Rank& rank, bool parameters, const std::vector<CapturedTensor>& captured,
             const std::function<void(const ToCoordinator&)>& report) {
  for (const CapturedTensor& tensor : captured) report_tensor(rank.id().value, tensor, report);
  for (const runtime::Stage* stage : rank.compute().stages()) {
    for (const auto& tensor : stage->shard().tensors()) {
      const bool part = parameters && tensor.masters_divided;
      if (part ? tensor.reported().empty() : !tensor.is_owner()) continue;
      MILLRACE_CHECK(parameters || !tensor.sums_divided, ExitCode::internal, "actors.collect",
                     "gradients of {} are to be collected, which replicas have divided between them", tensor.name);
      CapturedTensor found;
      found.name = (parameters ? "" : "grad.") + tensor.name;
      found.shape = tensor.shape.sizes();
      found.first = tensor.experts.first;
      found.experts = tensor.experts.whole;
      if (part) std::tie(found.begin, found.count) = std::pair(tensor.in_model(tensor.owned).first, tensor.owned.count);
      found.values.resize(part ? static_cast<std::size_t>(tensor.owned.count) : tensor.elements());
      const kernels::Tensor place = parameters ? stage->shard().master(tensor) : stage->shard().gradient(tensor);
      rank.worker().run([&] { kernels::fetch(rank.context(), place, std::as_writable_bytes(std::span(found.values))); });
      report_tensor(rank.id().value, found, report);
    }
  }
  report(Collected{rank.id().value, true, {}});
}

}  // namespace millrace::actors
