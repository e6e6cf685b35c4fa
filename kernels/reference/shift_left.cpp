#include "kernels/shift_left.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// One place after the other, distance by distance: an entry moves on as long as it stays in its row and its document.
void shift_left(const Tensor& x, const Tensor& segments, ShiftOptions options, const Tensor& y) {
  const std::int64_t tokens = x.shape[0], sequence = options.sequence;
  for (std::int64_t row = 0; row < tokens; row += sequence) {
    const std::int32_t* documents = segments.as<std::int32_t>() + row;
    for (std::int64_t t = 0; t < sequence; ++t) {
      bool allowed = t + options.distance < sequence;
      for (std::int64_t step = 1; allowed && step <= options.distance; ++step) {
        const bool border = documents[t + step] != documents[t + step - 1] || documents[t + step] == 0;
        if (border && (step == options.distance || !options.last_border_only)) allowed = false;
      }
      y.as<std::int32_t>()[row + t] = allowed ? x.as<std::int32_t>()[row + t + options.distance] : options.filling;
    }
  }
}

const InTable shift_left_in_table[] = {
    {Backend::reference, table::shift_left, without_context<shift_left>},
};

}  // namespace
}  // namespace millrace::kernels::reference
