#include "runtime/engine/ownership.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

ElementRange Pieces::range(std::int64_t piece) const noexcept {
  const std::int64_t part = piece / of_part(), begin = piece % of_part() * piece_elements;
  return {part * part_ + begin, std::min(piece_elements, part_ - begin)};
}

Pieces::Run Pieces::of(const ElementRange& elements) const {
  if (elements.empty()) return {};
  const auto border = [this](std::int64_t element) {  // the number of pieces that end at this element or before
    const std::int64_t part = element / part_, within = element % part_;
    MILLRACE_CHECK(within % piece_elements == 0, ExitCode::internal, "runtime.ownership", "element {} of a part of {} is within a piece",
                   within, part_);
    return part * of_part() + within / piece_elements;
  };
  return {border(elements.first), border(elements.end())};
}

std::vector<std::vector<ElementRange>> divide(std::span<const DividedTensor> tensors, std::span<std::int64_t> loads) {
  const std::size_t members = loads.size();
  std::int64_t all = 0;
  for (const DividedTensor& tensor : tensors) all += tensor.counts ? tensor.elements : 0;
  const std::int64_t each =
      (std::accumulate(loads.begin(), loads.end(), all) + static_cast<std::int64_t>(members) - 1) / static_cast<std::int64_t>(members);
  std::vector<std::vector<ElementRange>> own(tensors.size(), std::vector<ElementRange>(members));
  std::size_t member = 0;
  std::int64_t position = 0, end = std::max<std::int64_t>(0, each - loads[0]);  // of the member's run, as far as units allow
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const DividedTensor& tensor = tensors[index];
    for (std::int64_t first = 0; first < tensor.elements; first += tensor.unit) {
      const std::int64_t count = std::min(tensor.unit, tensor.elements - first);
      const std::int64_t load = tensor.counts ? count : 0;
      while (member + 1 < members && position + (load + 1) / 2 > end) {
        ++member;
        end += std::max<std::int64_t>(0, each - loads[member]);
      }
      ElementRange& range = own[index][member];
      if (range.empty()) range.first = first;
      range.count += count;
      position += load;
    }
  }
  for (std::size_t index = 0; index < tensors.size(); ++index)
    for (std::size_t m = 0; m < members; ++m) loads[m] += tensors[index].counts ? own[index][m].count : 0;
  return own;
}

}  // namespace millrace::runtime
