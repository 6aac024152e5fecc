! Trains inside an MPI program, whose ranks are weft's too: mpirun -n 2 train_in_fortran 127.0.0.1:29500
! Build: mpifort /opt/weft/include/weft.f90 train_in_fortran.f90 -o train_in_fortran \
!          -L/opt/weft/lib -lweft_c -Wl,-rpath,/opt/weft/lib
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
    call check(weft_trainer_step(trainer, [inputs(count)], 1, targets(count), result))
    if (rank == 0 .and. mod(step, 20) == 0) write (*, '(a,i0,a,f0.6)') 'step ', step, ': loss ', result%loss
  end do

  ! Each rank predicts samples of its own, and the program adds up what is right.
  count = batch
  call make_samples(1000000 + rank * batch, batch)
  shape_of_logits = [count, 2_c_int64_t]
  call check(weft_trainer_predict(trainer, [inputs(count)], 1, &
    [weft_array(data=c_loc(logits), shape=c_loc(shape_of_logits), dims=2, type=weft_float64)], 1))
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

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == weft_ok) return
    write (*, '(a)') weft_error_text()
    error stop
  end subroutine

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
