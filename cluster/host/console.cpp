#include "cluster/host/console.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "kernels/base/count.hpp"
#include "kernels/base/system_refusal.hpp"

namespace millrace::cluster {
namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr int look_again_ms = 100;
constexpr auto stdout_first = Milliseconds(100);

std::atomic<Console*> the_console{nullptr};

}  // namespace

std::size_t terminal_columns(int descriptor) noexcept {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int write_text(int descriptor, std::string_view text, const std::function<bool()>& give_up) {
  while (!text.empty()) {
    if (give_up()) return ETIMEDOUT;
    pollfd entry{descriptor, POLLOUT, 0};
    const int ready = poll(&entry, 1, look_again_ms);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    // A writable pipe accepts PIPE_BUF bytes without blocking.
    const ssize_t written = ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) return written == 0 ? EIO : errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

TextWriter::TextWriter(int descriptor, std::size_t limit, std::function<void(int)> failed)
    : descriptor_(descriptor), limit_(limit), failed_(std::move(failed)) {}

TextWriter::TextWriter(int descriptor, TextWriter& first) : descriptor_(descriptor), limit_(default_limit), first_(&first) {}

TextWriter::~TextWriter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void TextWriter::put(std::string text) {
  const std::lock_guard lock(mutex_);
  if (queued_bytes_ + text.size() > limit_) {
    ++dropped_;
    return;
  }
  queued_bytes_ += text.size();
  queue_.push_back(std::move(text));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

bool TextWriter::drain(Milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return queue_.empty() && !writing_; });
}

int TextWriter::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool TextWriter::ends() const {
  const std::lock_guard lock(mutex_);
  return ends_;
}

void TextWriter::run() {
  pthread_setname_np(pthread_self(), "console");
  sigset_t all;
  sigfillset(&all);  // signals are handled by other threads, and a closed pipe must be an error code
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    std::string text = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= text.size();
    if (queue_.empty() && dropped_ > 0)
      text += fmt::format("({} missing here: not read in time)\n", counted(std::exchange(dropped_, 0), "line"));
    writing_ = true;
    lock.unlock();
    if (first_ != nullptr) first_->drain(stdout_first);
    write(text);
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

void TextWriter::write(const std::string& text) {
  const int error = write_text(descriptor_, text, [this] { return ends(); });
  if (error == 0 || error == ETIMEDOUT) return;
  {
    const std::lock_guard lock(mutex_);
    if (error_ != 0) return;
    error_ = error;
  }
  if (failed_) failed_(error);
}

Console::Console()
    : out(STDOUT_FILENO, TextWriter::default_limit,
          [this](int error) {
            err.put(
                fmt::format("warning: stdout cannot be written ({}): the run continues without its output there\n", std::strerror(error)));
          }),
      err(STDERR_FILENO, out) {}

Console& console() {
  static auto* const one = [] {
    auto* made = new Console;
    the_console.store(made, std::memory_order_release);
    return made;
  }();
  return *one;
}

bool drain_console(Milliseconds limit) {
  Console* used = the_console.load(std::memory_order_acquire);
  if (used == nullptr) return true;
  const bool out = used->out.drain(limit);
  return used->err.drain(limit) && out;
}

Error error_of(const std::exception& error, const char* component) {
  const bool of_stream = std::ferror(stdout) != 0 || std::ferror(stderr) != 0;
  if (of_stream && dynamic_cast<const std::system_error*>(&error) != nullptr)
    return {ExitCode::storage, fmt::format("[{}] {}", component, error.what())};
  return as_error(error, component);
}

int console_error() {
  Console* used = the_console.load(std::memory_order_acquire);
  return used == nullptr ? 0 : used->out.error();
}

}  // namespace millrace::cluster
