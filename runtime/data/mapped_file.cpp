#include "runtime/data/mapped_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void refuse(const std::filesystem::path& path, const char* what, int error) {
  const char* advice = error == ENOMEM ? " (too many files are mapped: join small files, or raise vm.max_map_count)" : "";
  fail(ExitCode::data, "data", "{}: {}: {}{}", path.string(), what, std::strerror(error), advice);
}

// -- what a bus error is about: a list that a signal handler may read ---------------------------------------------------------------------

struct Mapping {
  std::atomic<const std::byte*> data{nullptr};
  std::atomic<std::size_t> size{0};
  std::array<char, 512> path{};
};

constexpr std::size_t max_mappings = 4096;  // files beyond this number are reported without their name
std::array<Mapping, max_mappings> mappings;

void enlist(const std::byte* data, std::size_t size, const std::string& path) {
  for (Mapping& mapping : mappings) {
    std::size_t free = 0;
    if (!mapping.size.compare_exchange_strong(free, size)) continue;
    mapping.path[path.copy(mapping.path.data(), mapping.path.size() - 1)] = '\0';
    mapping.data.store(data, std::memory_order_release);
    return;
  }
}

void strike(const std::byte* data) {
  for (Mapping& mapping : mappings) {
    if (mapping.data.load() != data) continue;
    mapping.data.store(nullptr);
    mapping.size.store(0, std::memory_order_release);
    return;
  }
}

void print(const char* text) {
  const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);  // there is no further place to report to
}

void lost(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (const Mapping& mapping : mappings) {
    const std::byte* data = mapping.data.load(std::memory_order_acquire);
    if (data == nullptr || address < data || address >= data + mapping.size.load()) continue;
    print("error: [data] ");
    print(mapping.path.data());
    print(": bytes that were there at the start cannot be read any more: the file was shortened or its disk fails\n");
    ::_exit(static_cast<int>(ExitCode::data));
  }
  ::signal(SIGBUS, SIG_DFL);  // not caused by our files: restores the default, which ends the process
  ::raise(SIGBUS);
}

}  // namespace

void report_lost_data() {
  struct sigaction action {};
  action.sa_sigaction = lost;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe would block until a writer opens it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) refuse(path, "cannot be read", errno);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) refuse(path, "cannot be read", errno);
  MILLRACE_CHECK(S_ISREG(status.st_mode), ExitCode::data, "data", "{}: not a regular file", path.string());
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) refuse(path, "cannot be mapped", errno);
  data_ = static_cast<const std::byte*>(address);
  enlist(data_, size_, path.string());
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  strike(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace millrace::runtime
