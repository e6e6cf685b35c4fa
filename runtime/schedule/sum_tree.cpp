#include "runtime/schedule/sum_tree.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"

namespace millrace::runtime {
namespace {

/// Appends the additions of the parts first, first + stride, first + 2 · stride, … into the first one.
void add_class(int parts, int first, int stride, std::vector<PartAddition>& additions) {
  const int members = parts / stride;
  if (members % 2 == 0) {
    add_class(parts, first, 2 * stride, additions);
    add_class(parts, first + stride, 2 * stride, additions);
    additions.push_back({first, first + stride});
    return;
  }
  for (int member = 1; member < members; ++member) additions.push_back({first, first + member * stride});
}

}  // namespace

std::vector<PartAddition> sum_tree(int parts) {
  MILLRACE_CHECK(parts >= 1, ExitCode::internal, schedule_component, "a sum of {} parts, expected 1 or more", parts);
  std::vector<PartAddition> additions;
  add_class(parts, 0, 1, additions);
  return additions;
}

DividedSumTree divide_sum_tree(int parts, int copies) {
  MILLRACE_CHECK(copies >= 1 && parts % copies == 0, ExitCode::internal, schedule_component,
                 "a sum of {} parts for {} copies, expected a multiple", parts, copies);
  constexpr int several = -1;
  DividedSumTree tree;
  tree.own.resize(static_cast<std::size_t>(copies));
  tree.sums.resize(static_cast<std::size_t>(copies));
  std::vector<int> copy_of;  // by part: the copy that has all of what was added to it
  for (int part = 0; part < parts; ++part) copy_of.push_back(part % copies);
  std::vector<bool> added(copy_of.size(), false);  // by its own copy to another part
  for (const PartAddition& addition : sum_tree(parts)) {
    int& into = copy_of[static_cast<std::size_t>(addition.into)];
    if (into != several && into == copy_of[static_cast<std::size_t>(addition.from)]) {
      tree.own[static_cast<std::size_t>(into)].push_back(addition);
      added[static_cast<std::size_t>(addition.from)] = true;
      continue;
    }
    into = several;
    tree.across.push_back(addition);
  }
  for (int part = 0; part < parts; ++part)
    if (!added[static_cast<std::size_t>(part)]) tree.sums[static_cast<std::size_t>(part % copies)].push_back(part);
  return tree;
}

}  // namespace millrace::runtime
