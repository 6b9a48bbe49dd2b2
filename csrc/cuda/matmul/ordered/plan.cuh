// Which kernel computes a product, by its sizes and the device; all give the same bits.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>

#include "skinny.cuh"
#include "split_k.cuh"
#include "tensor_float64.cuh"
#include "tile.cuh"

namespace torch_reductions::cuda::matmul {

// T: float, double, or the unsigned integer that products are computed in; or a type that is widened to one of them.
template <class T, class Out>
class ProductPlan {
  using P = ProductOf<T>;
  static constexpr int kV = 16 / int(sizeof(T));

 public:
  ProductPlan(const MatmulArgs& args, Context& context)
      : args_(args),
        context_(context),
        multiprocessors_(multiprocessors(context.device)),
        chunks_(ceil_div(args.k, kProductChunk)),
        a_(operand(args.a, args.m, args.a.row_stride, args.a.column_stride)),
        b_(operand(args.b, args.n, args.b.column_stride, args.b.row_stride)) {}

  void run() {
    if (args_.k == 0)
      return multiply_split_k<P, Out>(args_, context_, 0, 1, [](const MatmulArgs&, int64_t, int64_t) {});
    if constexpr (Tuning<T>::kSkinny) {
      if (args_.parts == 1 && std::min(args_.m, args_.n) <= kSkinnyRows) return skinny();
    }
    tiles_of_least_cost(typename Tuning<T>::Tiles());
  }

 private:
  // A stride along one element may be anything.
  Operand<T> operand(const Matrix& matrix, int64_t lines, int64_t mn_stride, int64_t k_stride) const {
    if (lines == 1 && k_stride != 1) mn_stride = 1;
    if (args_.k == 1 && mn_stride != 1) k_stride = 1;
    return {static_cast<const T*>(matrix.data), matrix.batch_stride, mn_stride, k_stride, lines};
  }

  // body(constant layout), with vectors where MnVectors or KVectors allows them and every one is whole and aligned.
  template <bool MnVectors, bool KVectors, class Body>
  void with_layout(const Operand<T>& x, Body body) const {
    if constexpr (!std::is_same_v<T, P>) body(std::integral_constant<Layout, Layout::any>());
    else
      with_bool(is_k_major(x), [&](auto k_major) {
        if constexpr (k_major ? KVectors : MnVectors) {
          if (aligned(x, k_major ? x.mn_stride : x.k_stride) && (k_major ? args_.k : x.lines) % kV == 0)
            return body(std::integral_constant<Layout, k_major ? Layout::k_major_vec : Layout::mn_major_vec>());
        }
        body(std::integral_constant<Layout, k_major ? Layout::k_major : Layout::mn_major>());
      });
  }

  // body(are there parts?), of types that have them.
  template <class Body>
  void with_parts(Body body) const {
    if constexpr (std::is_floating_point_v<T>) with_bool(args_.parts > 1, body);
    else body(std::false_type());
  }

  static bool is_k_major(const Operand<T>& x) { return x.mn_stride != 1 || x.k_stride == 1; }

  // May two neighbours be copied at once, wherever a tile begins?
  template <bool KMajor>
  bool pairs(const Operand<T>& x) const {
    return aligned(x, KMajor ? x.mn_stride : x.k_stride) && (KMajor || x.lines % kV == 0);
  }

  bool aligned(const Operand<T>& x, int64_t stride) const {
    return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && stride % kV == 0 && x.batch_stride % kV == 0;
  }

  // --- Skinny products -----------------------------------------------------------------------------------------------

  void skinny() {
    const bool few_are_columns = args_.m > kSkinnyRows;
    const Operand<T>&few = few_are_columns ? b_ : a_, &many = few_are_columns ? a_ : b_;
    SkinnyJob<T> job{args_, few, many, few_are_columns};
    job.line_groups = unsigned(ceil_div(many.lines, int64_t(32)));
    job.first = 0, job.last = chunks_, job.splits_k = false;
    with_layout<sizeof(T) == 4, sizeof(T) == 4>(many, [&](auto layout) {
      if (few.lines == 1) skinny<1, layout>(job);
      else if (few.lines <= 4) skinny<4, layout>(job);
      else skinny<kSkinnyRows, layout>(job);
    });
  }

  template <int Rows, Layout kLayout>
  void skinny(SkinnyJob<T>& job) {
    constexpr size_t kBytes = SkinnySizes<P, Rows, kLayout>::kBytes;
    const int64_t most = std::min(int64_t(skinny_warps(sizeof(P))), int64_t(shared_memory(context_.device) / kBytes));
    const auto start = [&](int64_t warps) {
      const int64_t blocks = args_.batch * job.line_groups * ceil_div(job.last - job.first, warps);
      launch(multiply_skinny<T, Out, Rows, kLayout>, blocks, unsigned(32 * warps), warps * kBytes, context_.stream,
             job);
    };
    if (chunks_ <= most) return start(chunks_);
    const auto multiply = [&](const MatmulArgs& partials, int64_t first, int64_t count) {
      job.args = partials, job.first = first, job.last = first + count, job.splits_k = true;
      start(std::min(std::max(most / 2, int64_t(1)), count));
    };
    multiply_split_k<P, Out>(args_, context_, chunks_, partials_at_once(1), multiply);
  }

  // --- Tiles ---------------------------------------------------------------------------------------------------------

  // What each shape would cost, in products that one multiprocessor computes: the busiest has ceil(blocks /
  // multiprocessors) blocks. A run of 0 chunks stands for all of k.
  template <class... Shapes>
  void tiles_of_least_cost(List<Shapes...>) {
    double least = INFINITY;
    void (ProductPlan::*tiles)() = nullptr;
    const auto consider = [&]<class Shape>(std::type_identity<Shape>) {
      for (int run = 0; run <= (args_.parts > 1 ? 0 : kMostRun); run = run == 0 ? 1 : 2 * run) {
        const double cost = this->template cost<Shape>(run);
        if (cost < least) least = cost, run_ = run, tiles = &ProductPlan::template tiles<Shape>;
      }
    };
    (consider(std::type_identity<Shapes>()), ...);
    (this->*tiles)();
  }

  template <class Shape>
  double cost(int run) const {
    if (run == 0 ? args_.k > kMostDepth : run >= chunks_ && run > 1) return INFINITY;
    if (most_bytes<Shape>() > size_t(shared_memory(context_.device))) return INFINITY;
    if constexpr (std::is_same_v<Shape, DmmaTile>) {  // only for 9.0 it is known that the bits are those of fma
      if (architecture(context_.device) != 90 || !tensor_tiles_compiled<T>()) return INFINITY;
    }
    const int64_t at_once = run == 0 ? chunks_ : std::min(partials_at_once(run), chunks_);
    const double tiles = double(tiles_of(args_.batch, args_.m, args_.n, Shape::kM, Shape::kN));
    const double busiest = std::ceil(tiles * (run == 0 ? 1 : ceil_div(at_once, int64_t(run))) / multiprocessors_);
    const double depth = double(run == 0 ? args_.k : std::min(args_.k, run * kProductChunk));
    const double rate = Shape::kRate / 100. * std::min(1., busiest / Shape::kFill);
    const double round = busiest * (Shape::kM * Shape::kN * depth / rate + kBlockStart);
    if (run == 0) return round;
    const double bytes = double(args_.batch) * args_.m * args_.n * chunks_ * sizeof(P);
    return double(chunks_) / at_once * (round + kFoldLaunch) + kFoldByte * bytes / multiprocessors_;
  }

  template <class Shape>
  static constexpr size_t most_bytes() {
    if constexpr (std::is_same_v<Shape, DmmaTile>) {
      return TensorStages::kBytes + TensorStages::kTotalBytes;
    } else {
      using Padded = TileSizes<T, Shape, Layout::k_major, Layout::k_major>;
      using OnePadded = TileSizes<T, Shape, Layout::k_major, Layout::mn_major>;
      return std::max(Padded::kStageBytes, OnePadded::kStageBytes) + Padded::kTotalBytes;
    }
  }

  template <class Shape>
  void tiles() {
    if constexpr (std::is_same_v<Shape, DmmaTile>) {
      with_bool(is_k_major(a_), [&](auto k_major_a) {
        with_bool(is_k_major(b_), [&](auto k_major_b) {
          with_parts([&](auto in_parts) {
            const bool in_pairs = pairs<k_major_a>(a_) && pairs<k_major_b>(b_);
            start_tiles<Shape>(in_pairs ? multiply_tensor_tiles<T, k_major_a, k_major_b, in_parts, true>
                                        : multiply_tensor_tiles<T, k_major_a, k_major_b, in_parts, false>,
                               TensorStages::kBytes, TensorStages::kTotalBytes);
          });
        });
      });
    } else {
      constexpr bool kWhole = std::is_same_v<T, float>;
      with_layout<kWhole, false>(a_, [&](auto layout_a) {
        with_layout<kWhole, false>(b_, [&](auto layout_b) {
          with_parts([&](auto in_parts) {
            using Sizes = TileSizes<T, Shape, layout_a, layout_b>;
            start_tiles<Shape>(multiply_tiles<T, Out, Shape, layout_a, layout_b, in_parts>, Sizes::kStageBytes,
                               Sizes::kTotalBytes);
          });
        });
      });
    }
  }

  template <class Shape>
  void start_tiles(void (*kernel)(TileJob<T>), size_t stage_bytes, size_t total_bytes) {
    constexpr int kStored = 16 / int(sizeof(P));
    TileJob<T> job{args_, a_, b_};
    // The tiles that run at the same time form an area about as high as it is wide.
    const double resident = double(multiprocessors_) * Shape::kBlocks;
    const auto high = int64_t(std::max(1., std::round(std::sqrt(resident * Shape::kN / Shape::kM))));
    const auto schedule = [&](const KPieces& k) {
      job.schedule = tile_schedule(args_.batch, args_.m, args_.n, Shape::kM, Shape::kN, high, k);
    };
    const auto start = [&] {
      const bool has_totals = !job.direct || (!job.splits_k && chunks_ > 1);
      launch(kernel, job.schedule.tiles, Shape::kThreads, stage_bytes + has_totals * total_bytes, context_.stream, job);
    };
    if (run_ > 0) {
      const auto multiply = [&](const MatmulArgs& partials, int64_t first, int64_t count) {
        schedule({first * kProductChunk, run_ * kProductChunk, ceil_div(count, int64_t(run_))});
        job.args = partials, job.splits_k = true, job.direct = stores_vectors(partials, kStored);
        start();
      };
      return multiply_split_k<P, Out>(args_, context_, chunks_, partials_at_once(run_), multiply);
    }
    schedule({0, args_.k, 1});
    job.splits_k = false;
    job.direct = std::is_same_v<Out, P> && args_.added.data == nullptr && stores_vectors(args_, kStored);
    if (args_.parts == 1) return start();
    job.parts = unsigned(args_.parts), job.part = int(ceil_div(args_.k, int64_t(args_.parts)));
    const int64_t blocks = std::min(int64_t(job.schedule.tiles), int64_t(multiprocessors_) * Shape::kBlocks);
    const size_t waiting = size_t(std::bit_width(job.parts - 1)) * blocks * Shape::kM * Shape::kN * sizeof(P);
    job.waiting = static_cast<P*>(context_.workspace(waiting));
    launch(kernel, blocks, Shape::kThreads, stage_bytes + total_bytes, context_.stream, job);
  }

  // As many partials as fit the workspace, in whole runs.
  int64_t partials_at_once(int64_t run) const {
    return std::max(int64_t(1), matmul::partials_at_once(args_, sizeof(P), multiprocessors_) / run) * run;
  }

  static constexpr int kMostRun = 16;

  const MatmulArgs& args_;
  Context& context_;
  const int multiprocessors_;
  const int64_t chunks_;
  const Operand<T> a_, b_;
  int run_ = 0;
};

}  // namespace torch_reductions::cuda::matmul
