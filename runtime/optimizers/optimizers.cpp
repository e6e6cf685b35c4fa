#include <string>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/optimizers/averaged.hpp"
#include "runtime/optimizers/optimizer.hpp"
#include "runtime/optimizers/optimizer_config.hpp"

namespace millrace::runtime {

std::shared_ptr<const Optimizer> make_optimizer(const TrainConfig& train) {
  std::vector<std::string> names;
  for (const OptimizerRow& row : optimizer_table) {
    if (row.name == train.optimizer) return train.average_decay > 0 ? with_average(row.make(train), train.average_decay) : row.make(train);
    names.emplace_back(row.name);
  }
  fail(ExitCode::config, "runtime.optimizers", "train.optimizer = \"{}\", expected one of {}{}", train.optimizer, fmt::join(names, ", "),
       did_you_mean(train.optimizer, names));
}

}  // namespace millrace::runtime
