#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cluster/host/affinity.hpp"
#include "cluster/host/host_cores.hpp"
#include "cluster/host/host_memory.hpp"
#include "cluster/host/versions.hpp"
#include "configs/presets.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/base/device.hpp"
#include "kernels/base/device_context.hpp"
#include "kernels/base/without_component.hpp"
#include "kernels/cpu/matmul.hpp"
#include "kernels/peak.hpp"
#include "kernels/row_stability.hpp"
#include "runtime/units.hpp"
#include "tools/commands/command.hpp"

namespace millrace::tools {
namespace {

using kernels::DType;

/// Prints "ok   name   what was found", or "warn name   what was found" followed by an arrow and advice; counts the warnings. "fail" is for
/// what makes results wrong.
class Report {
 public:
  void ok(std::string_view name, const std::string& found) { fmt::print("ok    {:<14} {}\n", name, found); }
  void warn(std::string_view name, const std::string& found, std::string_view advice) {
    fmt::print("warn  {:<14} {}\n      {:<14} -> {}\n", name, found, "", advice);
    ++warnings_;
  }
  void failed(std::string_view name, const std::string& found, std::string_view meaning) {
    fmt::print("fail  {:<14} {}\n      {:<14} -> {}\n", name, found, "", meaning);
    ++failures_;
  }
  void check(bool good, std::string_view name, const std::string& found, std::string_view advice) {
    if (good) return ok(name, found);
    warn(name, found, advice);
  }
  [[nodiscard]] int warnings() const noexcept { return warnings_; }
  [[nodiscard]] int failures() const noexcept { return failures_; }

 private:
  int warnings_ = 0, failures_ = 0;
};

/// The first line of a file; empty if the file cannot be read.
std::string first_line(const std::string& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string core_list(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cores[i]);
    if (last > i) text += fmt::format("-{}", cores[last]);
    i = last + 1;
  }
  return text;
}

std::string peak_text(DType dtype) {
  const int cores = cluster::usable_cores();
  return fmt::format("{:.1f} GFLOP/s on {} together, by {}", kernels::measured_peak_flops(dtype, cores) / 1e9, counted(cores, "core"),
                     kernels::cpu::matmul_path(dtype));
}

void versions(Report& report) {
  report.ok("build", build_id());
  report.ok("libraries", fmt::format("{}, {}", cluster::mpi_version(), cluster::boost_version()));
#ifdef __OPTIMIZE__
  report.ok("optimised", "yes");
#else
  report.warn("optimised", "no", "train with the preset release: cmake --preset release");
#endif
}

void processor(Report& report) {
  const auto& features = kernels::cpu_features();
  report.check(features.isa != kernels::Isa::baseline, "processor", kernels::describe(features),
               "the loops run without AVX2; expect a fraction of the speed");
  if (const char* lowered = std::getenv("MILLRACE_ISA"); lowered != nullptr)
    report.warn("MILLRACE_ISA", lowered, "the environment sets the instruction set; unset it unless you reproduce another machine's bits");
  const auto online = sysconf(_SC_NPROCESSORS_ONLN);
  const auto cores = cluster::available_cores();
  report.check(static_cast<long>(cores.size()) == online, "cores",
               fmt::format("{} of {} may be used: {}", cores.size(), online, core_list(cores)),
               "this process is bound; under mpirun millrace widens that by itself, a container's or taskset's limit stays");
  if (const auto quota = cluster::core_quota(cluster::HostFiles::of_this_host()))
    report.check(quota->cores >= static_cast<double>(cores.size()), "cpu quota",
                 fmt::format("{:.1f} cores: {}", quota->cores, quota->source),
                 fmt::format("less than the visible cores: runs count it as {}", counted(cluster::usable_cores(), "core")));
}

void peaks(Report& report) {
  report.ok("matmul fp32", peak_text(DType::f32));
  const bool widened = kernels::matmul_compute_dtype(DType::bf16) == DType::f32;
  report.ok("matmul bf16",
            peak_text(DType::bf16) +
                (widened ? ": bf16 instructions are missing or slow here, so train.dtype = bf16 saves memory and not time" : ""));
}

/// A mixture of experts has the same bits in every layout only if a row's result does not depend on the rows beside it.
void expert_rows(Report& report) {
  constexpr std::array threads{1, 2};
  std::int64_t rows = 0, different = 0;
  std::string first;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto found = kernels::row_stability({.dtype = dtype}, threads);
    rows += found.rows;
    different += found.different;
    if (first.empty()) first = found.first;
  }
  if (different == 0)
    return report.ok("expert rows", fmt::format("{} rows of random routings, fp32 and bf16, 1 and 2 threads: none depends on how many rows "
                                                "its expert got",
                                                rows));
  report.failed("expert rows", fmt::format("{} of {} rows depend on how many rows their expert got; the first: {}", different, rows, first),
                "a mixture of experts will not have the same bits in every layout on this machine; other models are not affected");
}

void memory(Report& report) {
  const auto bounds = cluster::memory_bounds(cluster::HostFiles::of_this_host());
  if (bounds.empty())
    report.warn("memory", "not known: /proc/meminfo and the control groups say nothing", "a run is not checked against it");
  for (const auto& bound : bounds)
    report.check(bound.free > (std::uint64_t{1} << 30), &bound == &bounds.front() ? "memory" : "memory limit",
                 fmt::format("{} free: {}", runtime::bytes_text(bound.free), bound.source),
                 "little is free; `millrace inspect RUN.toml` shows what each rank needs");
  const auto pages = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  report.check(pages.find("[never]") == std::string::npos && !pages.empty(), "huge pages", pages.empty() ? "unknown" : pages,
               "arenas ask for huge pages; as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

void disks(Report& report) {
  std::error_code error;
  const auto here = std::filesystem::space(".", error);
  if (!error) {
    report.check(here.available > (std::uint64_t{1} << 30), "disk",
                 fmt::format("{} free in the current folder", runtime::bytes_text(here.available)),
                 "a checkpoint takes 12 bytes per weight, and three are on the disk while one is written");
  }
  const auto shared = std::filesystem::space("/dev/shm", error);
  if (!error) {
    report.check(shared.available > (std::uint64_t{64} << 20), "/dev/shm", fmt::format("{} free", runtime::bytes_text(shared.available)),
                 "processes of one host communicate there; a container needs --shm-size=1g or more");
  }
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const auto candidate = (std::filesystem::path(folder) / name).string();
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

void launchers(Report& report) {
  const auto mpirun = find_program("mpirun");
  report.check(!mpirun.empty(), "mpirun", mpirun.empty() ? "not found in PATH" : mpirun,
               "needed for several processes: apt-get install openmpi-bin");
  const bool allowed = std::getenv("OMPI_ALLOW_RUN_AS_ROOT") != nullptr && std::getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") != nullptr;
  if (!mpirun.empty() && geteuid() == 0 && !allowed)
    report.warn("root", "mpirun refuses to run as root", "give it --allow-run-as-root, and --oversubscribe for more processes than cores");
}

void devices_of(const kernels::DeviceType& type, Report& report) {
  const auto devices = type.devices();
  if (devices.empty())
    return report.ok(type.facts().name, fmt::format("{}; device = \"{}\" cannot be used", type.why_unavailable(), type.facts().name));
  report.ok(type.facts().name, type.libraries());
  constexpr double gibibyte = std::size_t{1} << 30;
  for (const auto& device : devices) {
    const auto [used, total] = type.memory_in_use(device.device);
    report.ok(kernels::to_string(device.device),
              fmt::format("{}, compute capability {}.{}, {:.1f} of {:.1f} GiB free", device.name, device.major, device.minor,
                          static_cast<double>(total - used) / gibibyte, static_cast<double>(total) / gibibyte));
  }
  report.ok("MPI and GPUs",
            cluster::mpi_reaches_devices() ? "MPI sends from a GPU's memory" : "boundaries are copied through pinned host memory");
}

void devices(Report& report) {
  for (const kernels::DeviceKind kind : kernels::device_kinds())
    if (const kernels::DeviceType& type = kernels::device_type(kind); type.facts().numbered) devices_of(type, report);
}

void folders(Report& report) {
  try {
    const auto folder = configs::find_configs_folder();
    report.ok("presets", fmt::format("{} models in {}", configs::preset_names(folder / "models").size(), (folder / "models").string()));
  } catch (const Error& error) {
    report.warn("presets", std::string(without_component(error.what())), "model.preset needs a path then");
  }
}

int doctor(const Arguments& parsed) {
  MILLRACE_CHECK(parsed.positional().empty(), ExitCode::usage, "millrace doctor", "{} given, expected no arguments",
                 parsed.positional().front());
  Report report;
  versions(report);
  processor(report);
  peaks(report);
  expert_rows(report);
  memory(report);
  disks(report);
  launchers(report);
  devices(report);
  folders(report);
  if (report.failures() > 0) {
    fmt::print("{} failed, {} to look at\n", report.failures(), report.warnings());
    return static_cast<int>(ExitCode::difference);
  }
  fmt::print("{}\n", report.warnings() == 0 ? std::string("all is well") : fmt::format("{} to look at", report.warnings()));
  return 0;
}

}  // namespace

Command doctor_command() { return {.name = "doctor", .summary = "Report what this machine and this build can do.", .run = doctor}; }

}  // namespace millrace::tools
