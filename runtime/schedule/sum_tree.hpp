#pragma once

#include <vector>

namespace millrace::runtime {

/// Part `into` += part `from`, of the gradient sums of a step; each holds what was added to it before.
struct PartAddition {
  int into = 0, from = 0;
  friend bool operator==(const PartAddition&, const PartAddition&) = default;
};

/// The additions that make one sum, that of part 0, of `parts` parts, in order: a balanced binary tree whose halves are the even and the
/// odd parts, their halves those that are alike modulo 4, and so on; an odd number of parts is added in order. For 8 and for 6 parts:
///
///     ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))        ((0 + 2) + 4) + ((1 + 3) + 5)
///
/// Copies that have the parts alike modulo their number add a subtree each, if their number is a power of two.
[[nodiscard]] std::vector<PartAddition> sum_tree(int parts);

/// The additions of the tree, divided between copies of which copy c has the parts that are c modulo `copies`.
struct DividedSumTree {
  std::vector<std::vector<PartAddition>> own;  // by copy: those of parts that one copy has
  std::vector<PartAddition> across;            // the others, in order
  std::vector<std::vector<int>> sums;          // by copy: the parts that hold its sums after its own additions, ascending
};

/// `copies` must divide `parts`.
[[nodiscard]] DividedSumTree divide_sum_tree(int parts, int copies);

}  // namespace millrace::runtime
