#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

/// A call of a kernel in the table of tests/kernels/operands_test.cpp.
namespace millrace::kernels::testing {

struct Operand {
  std::string name;
  DType dtype;
  Shape shape;
  bool leads = false;                  // its sizes and dtype determine those of the others: an error may name one of those
  std::vector<DType> also = {};        // dtypes that it may also have
  std::vector<std::size_t> free = {};  // axes that no other operand has
  bool may_lack = false;               // may be a tensor without memory, and is then omitted
};
using Operands = std::vector<Tensor>;
using Run = std::function<void(const ExecutionContext&, const Operands&, Scratch)>;
using Need = std::function<std::size_t(const ExecutionContext&)>;

struct Call {
  std::string component;
  std::vector<Operand> operands;
  Run run;
  Need scratch = [](const ExecutionContext&) { return std::size_t{0}; };
  bool checks_scratch = false;  // in the fast implementation
};

/// Sizes that are not multiples of a vector's sixteen lanes, nor of each other.
inline constexpr std::int64_t kTokens = 10, kSequence = 5, kWidth = 40, kColumns = 21, kVocabulary = 37, kHeads = 4, kPairs = 2;

}  // namespace millrace::kernels::testing
