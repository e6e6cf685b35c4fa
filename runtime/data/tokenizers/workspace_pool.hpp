#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace millrace::runtime {

/// A pool of workspaces. Callers on any thread borrow one each; a workspace keeps its allocations when it is borrowed again.
template <class Workspace>
class WorkspacePool {
 public:
  /// Returns its workspace to the pool when destroyed.
  class Loan {
   public:
    Loan(WorkspacePool& pool, std::unique_ptr<Workspace> workspace) : pool_(pool), workspace_(std::move(workspace)) {}
    ~Loan() {
      const std::lock_guard lock(pool_.mutex_);
      pool_.idle_.push_back(std::move(workspace_));
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    [[nodiscard]] Workspace& operator*() const noexcept { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
  };

  [[nodiscard]] Loan borrow() {
    std::unique_ptr<Workspace> workspace;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        workspace = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    return {*this, workspace ? std::move(workspace) : std::make_unique<Workspace>()};
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace millrace::runtime
