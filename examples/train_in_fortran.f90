! Trains inside an MPI program, whose ranks are weft's too: mpirun -n 2 train_in_fortran 127.0.0.1:29500
! Build: mpifort train_in_fortran.f90 -o train_in_fortran -L/opt/weft/lib -lweft_c -Wl,-rpath,/opt/weft/lib
module weft
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int32_t), parameter :: weft_float32 = 1, weft_float64 = 2, weft_int32 = 3, weft_int64 = 4

  type, bind(c) :: weft_array
    type(c_ptr) :: data = c_null_ptr
    type(c_ptr) :: shape = c_null_ptr
    type(c_ptr) :: strides = c_null_ptr
    integer(c_int32_t) :: dims = 0, type = 0, borrowed = 0, memory = 0
  end type

  type, bind(c) :: weft_step
    integer(c_int64_t) :: step, targets
    real(c_double) :: loss, gradient_norm, learning_rate
    integer(c_int32_t) :: skipped
  end type

  interface
    function weft_last_error() bind(c)
      import :: c_ptr
      type(c_ptr) :: weft_last_error
    end function
    integer(c_int) function weft_world_join(rank, size, address, timeout_s, world) bind(c)
      import :: c_int, c_char, c_double, c_ptr
      integer(c_int), value :: rank, size
      character(kind=c_char), intent(in) :: address(*)
      real(c_double), value :: timeout_s
      type(c_ptr), intent(out) :: world
    end function
    subroutine weft_world_free(world) bind(c)
      import :: c_ptr
      type(c_ptr), value :: world
    end subroutine
    integer(c_int) function weft_trainer_make(world, recipe, log, context, trainer) bind(c)
      import :: c_int, c_char, c_ptr, c_funptr
      type(c_ptr), value :: world, context
      character(kind=c_char), intent(in) :: recipe(*)
      type(c_funptr), value :: log
      type(c_ptr), intent(out) :: trainer
    end function
    subroutine weft_trainer_free(trainer) bind(c)
      import :: c_ptr
      type(c_ptr), value :: trainer
    end subroutine
    integer(c_int) function weft_trainer_share(trainer, first, count) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: trainer
      integer(c_int64_t), intent(out) :: first, count
    end function
    integer(c_int) function weft_trainer_step(trainer, inputs, num_inputs, target, result) bind(c)
      import :: c_int, c_ptr, weft_array, weft_step
      type(c_ptr), value :: trainer
      type(weft_array), intent(in) :: inputs, target
      integer(c_int), value :: num_inputs
      type(weft_step), intent(out) :: result
    end function
    integer(c_int) function weft_trainer_predict(trainer, inputs, num_inputs, outputs, num_outputs) bind(c)
      import :: c_int, c_ptr, weft_array
      type(c_ptr), value :: trainer
      type(weft_array), intent(in) :: inputs, outputs
      integer(c_int), value :: num_inputs, num_outputs
    end function
  end interface

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status
    character(kind=c_char), pointer :: text(:)
    integer :: length
    if (status == 0) return
    call c_f_pointer(weft_last_error(), text, [2048])
    length = 1
    do while (text(length) /= c_null_char)
      length = length + 1
    end do
    write (*, *) text(1:length - 1)
    error stop
  end subroutine

end module

program train_in_fortran
  use mpi
  use weft
  implicit none
  integer, parameter :: side = 8, batch = 64, steps = 60
  character(*), parameter :: lf = new_line('a')
  character(*), parameter :: recipe = &
    'model = { name = "mlp", layers = 2, width = 32, channels = 1, image_size = 8, classes = 2 }' // lf // &
    'batch = { global = 64, micro = 16 }' // lf // &
    'layout = { shard_level = "optimizer" }' // lf // &
    'optimizer = { name = "adamw", lr = 3e-3 }' // lf // &
    'run = { steps = 60, reproducible_slots = 4 }' // lf
  ! Fortran's order of dimensions is C's from back to front: weft has [samples, channels, height, width].
  real(c_float), target :: fields(side, side, 1, batch)
  integer(c_int32_t), target :: labels(batch)
  real(c_double), target :: logits(2, batch)
  integer(c_int64_t), target :: shape(4), shape_of_logits(2)
  integer(c_int64_t) :: first, count
  type(c_ptr) :: world, trainer
  type(weft_step) :: result
  character(256) :: address
  integer :: rank, size, error, step, right, all_right

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call get_command_argument(1, address)
  call check(weft_world_join(rank, size, trim(address) // c_null_char, 60.0_c_double, world))
  call check(weft_trainer_make(world, recipe // c_null_char, c_null_funptr, c_null_ptr, trainer))

  do step = 1, steps
    call check(weft_trainer_share(trainer, first, count))
    call make_samples((step - 1) * batch + int(first), int(count))
    call check(weft_trainer_step(trainer, inputs(count), 1, targets(count), result))
    if (rank == 0 .and. mod(step, 20) == 0) write (*, '(a,i0,a,f0.6)') 'step ', step, ': loss ', result%loss
  end do

  ! Each rank predicts samples of its own, and the program adds up what is right.
  count = batch
  call make_samples(1000000 + rank * batch, batch)
  shape_of_logits = [count, 2_c_int64_t]
  call check(weft_trainer_predict(trainer, inputs(count), 1, &
    weft_array(data=c_loc(logits), shape=c_loc(shape_of_logits), dims=2, type=weft_float64), 1))
  right = 0
  do step = 1, batch
    if ((logits(2, step) > logits(1, step)) .eqv. (labels(step) == 1)) right = right + 1
  end do
  call MPI_Allreduce(right, all_right, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) write (*, '(a,i0,a,i0,a)') 'unseen: ', all_right, ' of ', size * batch, ' right'
  call weft_trainer_free(trainer)
  call weft_world_free(world)
  call MPI_Finalize(error)

contains

  ! A wave that runs along one axis of the field or the other, with a phase of its own.
  subroutine make_samples(start, number)
    integer, intent(in) :: start, number
    integer :: i, x, y
    do i = 1, number
      labels(i) = mod(start + i, 2)
      do y = 1, side
        do x = 1, side
          fields(x, y, 1, i) = sin(0.8 * merge(x, y, labels(i) == 1) + 0.37 * mod(start + i, 1000))
        end do
      end do
    end do
  end subroutine

  function inputs(samples)
    integer(c_int64_t), intent(in) :: samples
    type(weft_array) :: inputs
    shape = [samples, 1_c_int64_t, int(side, c_int64_t), int(side, c_int64_t)]
    inputs = weft_array(data=c_loc(fields), shape=c_loc(shape), dims=4, type=weft_float32, borrowed=1)
  end function

  function targets(samples)
    integer(c_int64_t), intent(in) :: samples
    type(weft_array) :: targets
    shape(1) = samples
    targets = weft_array(data=c_loc(labels), shape=c_loc(shape), dims=1, type=weft_int32)
  end function

end program
