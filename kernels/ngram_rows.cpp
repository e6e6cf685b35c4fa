#include "kernels/ngram_rows.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/base/operands.hpp"

namespace millrace::kernels {

void ngram_rows(const ExecutionContext& context, const Tensor& tokens, const NgramOptions& options, const Tensor& y) {
  constexpr const char* component = "kernels.ngram_rows";
  const auto length = static_cast<std::int64_t>(options.multipliers.size()), tables = static_cast<std::int64_t>(options.rows.size());
  MILLRACE_CHECK(length >= 2 && length <= max_ngram, ExitCode::internal, component, "{} multipliers, expected 2 to {}", length, max_ngram);
  MILLRACE_CHECK(tables >= 1 && tables <= max_ngram_tables && tables % (length - 1) == 0, ExitCode::internal, component,
                 "{} tables, expected 1 to {}, as many for each of {} orders", tables, max_ngram_tables, length - 1);
  MILLRACE_CHECK(std::ranges::all_of(options.rows, [](std::int32_t rows) { return rows >= 1; }) &&
                     std::accumulate(options.rows.begin(), options.rows.end(), std::int64_t{0}) <= std::numeric_limits<std::int32_t>::max(),
                 ExitCode::internal, component, "tables whose rows are not 1 or more each and below 2^31 in all");
  check_rank(component, "tokens", tokens, 1);
  check_operand(component, "tokens", tokens, tokens.shape, {DType::i32});
  check_operand(component, "y", y, {tokens.shape[0], tables}, {DType::i32});
  check_rows(component, tokens.shape[0], options.sequence);
  table::ngram_rows(context, tokens, options, y);
}

}  // namespace millrace::kernels
